"""The rules that all stores share, and the memory engine."""

from __future__ import annotations

from tests.mutants import rates
from tests.mutants.mutant import Herd, Mutant

ADMISSION, MOVES, LIFE, BLAME = (
    f"engine/rules/{name}.py" for name in ("admission", "transitions", "lifecycle", "blame")
)
BOOK, STEERING, RATES = "engine/rules/in_force.py", "engine/rules/steering.py", "rates.py"
HISTORY, SHOWN = "engine/rules/history.py", "engine/rules/reading.py"
FULL, SHARES = "engine/rules/full.py", "engine/rules/shares.py"
SHARING, THROTTLING = "engine/rules/sharing.py", "engine/rules/throttling.py"
QUESTION, VIRTUAL = "engine/tables/question.py", "engine/tables/virtual.py"
LEDGER, ENGINE, SWEEP, STORE, CLAIM, RECHECK = (
    f"engine/memory/{name}.py" for name in ("ledger", "engine", "sweeping", "store", "claiming", "rechecking")
)

MUTANTS = [
    # admission: rules 1 to 8
    Mutant(
        ADMISSION,
        "most - self.ledger.held(key)",
        "most - self.ledger.held(key) + 1",
        "a key admits one too many",
    ),
    Mutant(
        ADMISSION,
        "if room < use.units or self._is_waited_for(use.key, job.queue):",
        "if room < use.units:",
        "a newcomer passes those who wait for tokens",
    ),
    Mutant(
        ADMISSION,
        "room = self.free(use.key) - self.ledger.offered(use.key, job.queue)\n            if room < use.units",
        "room = self.free(use.key)\n            if room < use.units",
        "newcomers are not counted as offered",
    ),
    Mutant(
        ADMISSION,
        "        for use in uses:\n            self._take(job, use)",
        "        for use in uses[:1]:\n            self._take(job, use)",
        "only the first key of several is taken",
    ),
    Mutant(
        ADMISSION,
        "        self._use_offer(job.offered_by)\n",
        "",
        "a used offer of a rate does not set its timer",
    ),
    Mutant(
        ADMISSION,
        "return free + self.ledger.holds(use.key, job) >= use.units",
        "return False",
        "a reservation does not admit the job that holds it",
    ),
    Mutant(
        ADMISSION,
        "return not self.ledger.has_waiters(use.key, job.queue) or self.ledger.holds(use.key, job) > 0",
        "return True",
        "one that passes by takes tokens that others wait for",
    ),
    Mutant(
        ADMISSION,
        "            self.ledger.spend(use.key, rule, use.units, job)",
        "            self.ledger.spend(use.key, rule, 1, job)",
        "a start costs one token, whatever it should",
    ),
    Mutant(
        ADMISSION,
        "            self.ledger.spend(use.key, rule, use.units, job)",
        "            self.ledger.spend(use.key, rule, use.units * 2, job)",
        "a start takes its tokens twice",
    ),
    Mutant(
        ADMISSION,
        "passed_over = job.refusals is not None and job.offered_by not in (None, refused.key)",
        "passed_over = False",
        "a job that is passed over never reserves",
    ),
    Mutant(
        ADMISSION,
        "kept = self._reservable(refused, uses) if refusals >= self.patience else ()",
        "kept = self._reservable(refused, uses)",
        "a job reserves at its first refusal",
    ),
    Mutant(
        ADMISSION,
        "        self._drop_except(job, [use.key for use in kept])\n        self.touch(job.offered_by)",
        "        self.touch(job.offered_by)",
        "a refused job keeps reservations behind the refusing key",
    ),
    Mutant(
        ADMISSION,
        "        self._drop_except(job, [use.key for use in kept])\n        self.touch(job.offered_by)\n",
        "        self._drop_except(job, [use.key for use in kept])\n",
        "a refused job does not pass its offer on",
    ),
    Mutant(
        ADMISSION,
        "        if self.is_timed(refused.key):\n            return ()\n",
        "",
        "a job that waits for a rate reserves slots",
    ),
    Mutant(
        ADMISSION,
        "        self.touched.update(dict.fromkeys(self.ledger.drop(jobs)))",
        "        self.ledger.drop(jobs)",
        "slots that come back are not offered",
    ),
    Mutant(
        ADMISSION,
        "            if job.offered_by is not None:\n                self.touch(job.offered_by)\n",
        "",
        "an offered job that leaves does not pass its offer on",
    ),
    Mutant(
        ADMISSION,
        "            if job.waiting_on is not None:\n                self._touch_line(job.waiting_on)\n",
        "",
        "the head of a rate's line leaves without a look at the timer",
    ),
    Mutant(
        ADMISSION,
        "        room = self.free(key) - self.ledger.offered(key, queue)\n        if room <= 0:",
        "        room = self.free(key)\n        if room <= 0:",
        "room is offered twice",
    ),
    Mutant(
        ADMISSION,
        "            if job.units > room:\n                break\n",
        "            if job.units > room:\n                continue\n",
        "a cheap waiter passes an expensive one",
    ),
    Mutant(
        ADMISSION,
        "            if self.is_timed(key):\n                self.ledger.arm(key, self.timer_of(key, queues))\n",
        "",
        "a rate's timer is never set",
    ),
    Mutant(
        ADMISSION,
        "        needed = self.ledger.offered(key, queue) + heads[0].units",
        "        needed = heads[0].units",
        "a rate's timer forgets what is offered already",
    ),
    Mutant(
        ADMISSION,
        "        self.give_back([job])\n        self.ledger.set_aside(job)",
        "        self.ledger.set_aside(job)",
        "a job that is set aside keeps its offer",
    ),
    Mutant(
        ADMISSION,
        "        looks = want + LOOK_MORE",
        "        looks = 1 << 60",
        "a claim looks at any number of jobs",
    ),
    # what happens to jobs
    Mutant(
        MOVES,
        "        self.admission.give_back([job])\n        if job.spent:",
        "        if job.spent:",
        "an attempt that ends keeps its slots",
    ),
    Mutant(
        MOVES,
        "        self.admission.give_back([job])\n        why = {}",
        "        why = {}",
        "a cancelled job keeps its reservations and its offer",
    ),
    Mutant(
        MOVES,
        "if (job.id, job.attempt) not in known]",
        "if job.id not in {id for id, _ in known}]",
        "strays are compared by job, not by attempt",
    ),
    Mutant(MOVES, "tries=job.tries - (not verdict.counts)", "tries=job.tries", "a released attempt counts"),
    Mutant(
        MOVES,
        "            for key in self.keys_waiting(scope):\n                self.admission.touch(key)\n",
        "            pass\n",
        "a raised limit wakes nothing",
    ),
    Mutant(
        MOVES,
        "            self.adopt(Key(name).ident, **{kind: what})",
        "            pass",
        "a new cap does not count what runs already",
    ),
    Mutant(
        MOVES,
        "        self.book.changed()\n        self.admission.touch(key)",
        "        self.book.changed()",
        "a raised floating limit wakes nothing",
    ),
    Mutant(
        MOVES,
        "**({} if verdict.outcome in BACK_AS_THEY_WERE else INNOCENT)",
        "**{}",
        "a suspect that fails by itself stays suspect",
    ),
    Mutant(
        MOVES,
        "            refusals=None, **INNOCENT,",
        "            refusals=None,",
        "a restarted job stays suspect",
    ),
    Mutant(
        MOVES,
        '        if spec.on_conflict == "raise" or rival.state not in PENDING:',
        '        if spec.on_conflict == "raise":',
        "a running rival is replaced",
    ),
    Mutant(
        MOVES,
        "        if job.due > self.now:\n            self.call_workers = True\n            return\n",
        "",
        "a future job arrives at once",
    ),
    Mutant(
        MOVES,
        "        self.change(job, due=self.now)\n        self.come(job)",
        "        self.come(job)",
        "an expedited job stays scheduled",
    ),
    Mutant(
        LIFE,
        '            return Again(min(job.due, now), "released", False)',
        '            return Again(now, "released", False)',
        "a released job loses its place",
    ),
    Mutant(
        LIFE,
        '    return Again(min(job.due, now), "lost", False, LOST)',
        '    return Again(now, "lost", False, LOST)',
        "a lost job loses its place",
    ),
    Mutant(
        LIFE,
        '    if job.cancel_requested:\n        return End(JobState.CANCELLED, "lost", LOST)\n',
        "",
        "a cancelled job that is lost runs again",
    ),
    Mutant(
        LIFE,
        '            if job.cancel_requested:\n                return End(JobState.CANCELLED, "failed", outcome.error)\n',
        "",
        "a cancelled job that fails is retried",
    ),
    Mutant(
        BLAME,
        "    fails = most == 0 or (alone and",
        "    fails = most == 0 or (True and",
        "a job fails by loss that was not the only suspect",
    ),
    Mutant(
        BLAME,
        "    return 0 if now - job.started_at > cleared_after(job.lost_after) else job.suspicion",
        "    return job.suspicion",
        "a suspect is never cleared by running on",
    ),
    Mutant(
        BLAME,
        "            return self.empty and not fit",
        "            return True",
        "a grave suspect runs beside others",
    ),
    Mutant(
        BLAME,
        "    suspicion = before + 1 if before < GRAVE or alone else GRAVE",
        "    suspicion = before",
        "a loss raises no suspicion",
    ),
    Mutant(
        BLAME,
        "    company = sum(level(job, died) > 0 for job in jobs)",
        "    company = sum(level(job, seen) > 0 for job in jobs)",
        "a job that was cleared between the last renewal and the death counts as company",
    ),
    Mutant(
        BLAME,
        "    before = level(job, seen)\n",
        "    before = level(job, died)\n",
        "a suspect is cleared by time that it perhaps did not run",
    ),
    Mutant(
        BLAME,
        "    lost = job.lost + 1 if before else 1",
        "    lost = job.lost + 1",
        "losses before a job was cleared count",
    ),
    Mutant(
        BLAME,
        "    ran = max(job.lost_after if before else 0, died",
        "    ran = max(0, died",
        "only the last loss says how long a suspect must run to be cleared",
    ),
    Mutant(
        BLAME,
        " and suspicion >= min(GUILTY, most))",
        ")",
        "a job fails by loss that was never tried alone at the last level",
    ),
    Mutant(
        BLAME,
        "    return min(now, seen + lease // 2)",
        "    return now",
        "a worker is believed to have run until its loss was noticed",
    ),
    Mutant(
        BLAME,
        "        self.closed = any(one >= GRAVE for one in suspects)",
        "        self.closed = False",
        "suspects are taken on beside a grave one that runs",
    ),
    Mutant(
        BLAME,
        "max(1, concurrency // KEPT_APART) - sum(one >= APART for one in suspects)",
        "max(1, concurrency // KEPT_APART)",
        "suspects that run do not count among those that are kept apart",
    ),
    Mutant(
        BLAME,
        "    return lost_after + max(SECOND, lost_after // 4)",
        "    return lost_after",
        "a suspect is cleared as soon as it ran as long as before",
    ),
    # numbers in force, rates
    Mutant(
        BOOK,
        "scopes = [(key.name, key.value, tenant), (key.name, key.value, None), *scopes]",
        "scopes = [*scopes, (key.name, key.value, tenant), (key.name, key.value, None)]",
        "an override of a name beats that of a key",
    ),
    Mutant(
        BOOK,
        "        if known is not None and known.kind != limit.kind:",
        "        if False:",
        "a limit may change its kind",
    ),
    Mutant(
        RATES,
        "-(-self.period // self.limit)",
        "(self.period // self.limit)",
        "a pace is rounded down, above its rate",
    ),
    Mutant(
        RATES,
        "self.starts[0][0] <= now - pace.period",
        "self.starts[0][0] < now - pace.period",
        "a window is a microsecond too long",
    ),
    Mutant(
        RATES,
        "            self.full_at, self.since, self.refunded = now, now, 0",
        "            self.since, self.refunded = now, 0",
        "an idle bucket saves up tokens for ever",
    ),
    # sizes, several limits that wait for time
    Mutant(
        STORE,
        "sum(holding.units for holding in self.holders.get(key, {}).values())",
        "len(self.holders.get(key, {}))",
        "each job takes one slot, whatever its size",
    ),
    Mutant(
        ADMISSION,
        "isinstance(rule, Pace) or rule.sized or rule.gate is not None",
        "isinstance(rule, Pace) or rule.gate is not None",
        "small jobs pass the head of a line of sized ones",
    ),
    # a limit that is full, jobs that come too late
    Mutant(
        FULL,
        "    return Policy(limit.when_full, limit.max_waiting, limit.on_overflow)",
        "    return None",
        "all jobs wait, whatever their limit says",
    ),
    Mutant(
        ADMISSION,
        "if returning or self.full.may_wait(",
        "if self.full.may_wait(",
        "a job that comes back uncounted is dropped where there is no room",
    ),
    Mutant(
        ADMISSION,
        "        if not returning and not self.full.may_enter(",
        "        if not self.full.may_enter(",
        "a job that comes back uncounted is dropped where the queue is full",
    ),
    Mutant(
        FULL,
        "            if entering:\n",
        "            if True:\n",
        "what time brings is refused for a full backlog",
    ),
    Mutant(
        FULL,
        "last is None or job.priority > last.priority:",
        "last is None:",
        "a newcomer drives out a more urgent job",
    ),
    Mutant(
        LEDGER,
        "        return min(running, key=",
        "        return max(running, key=",
        "a newcomer stops the job that began last",
    ),
    Mutant(
        ADMISSION,
        "        if job.start_by is not None and job.start_by <= self.now:",
        "        if False:",
        "a claim starts what comes too late",
    ),
    Mutant(
        SWEEP,
        "    late = _too_late(transaction)\n",
        "    late = 0\n",
        "what was not started in time waits on",
    ),
    # unique keys
    Mutant(
        MOVES,
        "            job, spec=new, uses=new.uses, state=JobState.SCHEDULED, due=due,",
        "            job, spec=new, uses=new.uses, state=JobState.SCHEDULED, due=job.due,",
        "an update keeps the old due time",
    ),
    Mutant(
        MOVES,
        "min(due, job.enqueued_at + spec.at_most)",
        "min(due, self.now + spec.at_most)",
        "updates put a job off without end",
    ),
    Mutant(
        LEDGER,
        "        if job.attempt == 0 and job.spec.unique_for is not None:",
        "        if False:",
        "a unique key is free as soon as its job ends",
    ),
    Mutant(
        LEDGER,
        "        if job.attempt == 0 and job.spec.unique_for is not None:",
        "        if job.spec.unique_for is not None:",
        "a retry keeps the unique key for longer",
    ),
    Mutant(
        MOVES,
        "            expiry = max(expiry, job.unique_until)\n",
        "",
        "a job is deleted while its unique key is kept",
    ),
    # numbers that jobs bring
    Mutant(
        BOOK,
        "        if limit.per_key and numbers.brought is not None:\n            return numbers.brought\n",
        "",
        "the number that a job brings is not in force",
    ),
    Mutant(
        BOOK,
        "if override is None else override.max",
        "if override is None or self.own_numbers(key, self.limits[key.name]).brought else override.max",
        "the number that a job brings beats an override",
    ),
    Mutant(
        MOVES,
        "if known == use.number or (again and known is not None):",
        "if known == use.number:",
        "a job that comes again brings its old number",
    ),
    # what attempts say that they spent
    Mutant(
        RATES,
        "            self.refunded += back\n",
        "",
        "corrections give back the same time twice",
    ),
    Mutant(
        RATES,
        "        elif self.since <= spent.at:",
        "        else:",
        "a correction gives back tokens of an earlier busy period",
    ),
    Mutant(
        RATES,
        "min(-difference, spent.mark - self.refunded - now, self.full_at - now)",
        "min(-difference, self.full_at - now)",
        "a correction gives back what time has given back",
    ),
    Mutant(
        THROTTLING,
        "            truth = msgspec.structs.replace(spending, units=report.units)",
        "            truth = spending",
        "a second correction starts from the first estimate",
    ),
    # throttled keys
    Mutant(
        LIFE,
        'Again(min(job.due, now), "throttled", False)',
        'Again(min(job.due, now), "throttled", True)',
        "a throttled attempt counts",
    ),
    Mutant(
        LIFE,
        'Again(min(job.due, now), "throttled", False)',
        'Again(now, "throttled", False)',
        "a throttled job loses its place",
    ),
    Mutant(
        ADMISSION,
        "        opened = 1 + (now - self.opens_at) // self.step",
        "        opened = 0",
        "a throttled key stays closed until it is open wide",
    ),
    Mutant(
        ADMISSION,
        "        return opened if most is None or opened < most else most",
        "        return most",
        "a throttled key opens wide at once",
    ),
    Mutant(
        ADMISSION,
        "            return 0\n        opened",
        "            return most\n        opened",
        "a throttled key is not closed",
    ),
    Mutant(
        THROTTLING,
        "            if rule.gate is None or rule.gate.opens_at < until:",
        "            if True:",
        "a shorter throttle opens what a longer one closed",
    ),
    # fair shares
    Mutant(
        SHARES,
        "    return max(virtual, last) + step",
        "    return last + step",
        "a share that was idle passes the others until it has caught up",
    ),
    Mutant(
        SHARES,
        "    return max(virtual, last) + step",
        "    return virtual + step",
        "jobs of one share do not line up behind each other",
    ),
    Mutant(
        LEDGER,
        "        if job.tag:\n            self.store.advance(job.queue, job.priority, job.tag)\n",
        "",
        "virtual time does not advance with what starts",
    ),
    Mutant(
        SHARING,
        "                self.retag(queue, share, step_of(old), step_of(new))",
        "                pass",
        "a new weight does not count for what waits",
    ),
    Mutant(
        MOVES,
        "        if job.spec.share is not None and not returning:",
        "        if job.spec.share is not None:",
        "a job that comes back uncounted goes behind its share",
    ),
    # the memory engine
    Mutant(
        ENGINE,
        "        if job is None or job.attempt != report.attempt:",
        "        if job is None:",
        "a report about an old attempt counts",
    ),
    Mutant(
        ENGINE,
        "            if number <= entry.number:",
        "            if number < entry.number:",
        "a message may come twice",
    ),
    Mutant(
        ENGINE,
        "        if entry is None or entry.lease_until <= now:\n            raise lapsed(worker)",
        "        if entry is None:\n            raise lapsed(worker)",
        "a worker without a lease may claim",
    ),
    Mutant(
        STEERING,
        "if transitions.last_tick(name) != seen or transitions.schedule_paused(name):",
        "if transitions.schedule_paused(name):",
        "a tick comes once per worker",
    ),
    Mutant(
        STEERING,
        "if transitions.last_tick(name) != seen or transitions.schedule_paused(name):",
        "if transitions.last_tick(name) != seen:",
        "a paused task ticks",
    ),
    Mutant(
        STEERING,
        "        transitions.put_tick(name, transitions.now)\n    return there",
        "    return there",
        "a resumed task catches up its pause",
    ),
    Mutant(
        HISTORY,
        "max(first.longest, second.longest)",
        "first.longest + second.longest",
        "the longest wait is the sum of the longest",
    ),
    Mutant(
        HISTORY,
        "if pair in there or len(there) < HISTORY_MOST else OTHERS",
        "if len(there) < HISTORY_MOST else OTHERS",
        "a busy minute adds nothing more to the rows that it has",
    ),
    Mutant(
        SHOWN,
        "max(most - held, 0)",
        "most - held",
        "a lowered limit has less than nothing left",
    ),
    Mutant(
        QUESTION,
        'under = first in beneath and db == "main" and view in NAMES\n            return apsw.SQLITE_OK if',
        "under = True\n            return apsw.SQLITE_OK if",
        "SQL reads what is none of its tables",
    ),
    Mutant(
        QUESTION,
        "        return apsw.SQLITE_DENY\n\n    return authorize",
        "        return apsw.SQLITE_OK\n\n    return authorize",
        "SQL may do more than read",
    ),
    Mutant(
        VIRTUAL,
        "nothing = any(value is None for value in values)",
        "nothing = bool(values)",
        "what SQL looks for by a column of the store is not there",
    ),
    Mutant(
        MOVES,
        "return rival is None or rival is job or rival.id == job.id",
        "return True",
        "a restart makes a second job of a unique key",
    ),
    Mutant(
        STEERING,
        "    if job is None or job.state not in steering.states:",
        "    if job is None:",
        "a job is steered in any state",
    ),
    Mutant(
        BOOK,
        "        if any(other[0] == name and other != scope for other in self.overrides):\n            return None\n",
        "",
        "a change of a name is not acted on where a tenant has a number of its own",
    ),
    Mutant(
        BOOK,
        "after.max is None or after.max > before.max",
        "after.max is None or after.max > before.max + 1",
        "a limit that is raised by one wakes nothing",
    ),
    Mutant(SWEEP, "    _timers(transaction)\n", "", "a rate's timer is never looked at"),
    Mutant(SWEEP, "    _reservations(transaction)\n", "", "reservations never run out"),
    Mutant(SWEEP, "    _overrides(transaction)\n", "", "overrides never run out"),
    Mutant(
        SWEEP,
        "                transaction.store.let_go(key, holding)\n                transaction.admission.touch(key)",
        "                transaction.store.let_go(key, holding)",
        "a reservation that ran out wakes nothing",
    ),
    Mutant(
        LEDGER,
        "self._limit_reservations(job, self.now + self.reservation_ttl)",
        "self._limit_reservations(job, None)",
        "an offered job's reservations have no end",
    ),
    Mutant(
        STORE,
        "        rank = job.suspect_order if job.suspicion else job.order",
        "        rank = job.order",
        "suspects are not tried gravest first",
    ),
    Mutant(
        CLAIM,
        "        return line.first(most) if self.suspects else",
        "        return line.first(most) if True else",
        "a worker that declines suspects gets them",
    ),
    Mutant(
        CLAIM,
        "else [job for job in line if job.suspicion < APART][:most]",
        "else []",
        "a worker that declines suspects does not get those that were lost once",
    ),
    Mutant(
        CLAIM,
        "        found.sort(key=lambda job: -gravity(job.suspicion))\n",
        "",
        "a grave suspect of a later queue waits for lighter ones",
    ),
    Mutant(
        SWEEP,
        "    _forget_numbers(transaction)\n",
        "",
        "computed numbers are kept for ever",
    ),
    Mutant(
        SWEEP,
        "        if idle and numbers.at <= transaction.now - KEEP_NUMBERS:",
        "        if numbers.at <= transaction.now - KEEP_NUMBERS:",
        "computed numbers of keys in use are forgotten",
    ),
    Mutant(
        ENGINE,
        "            before, entry.number = entry.number, number\n",
        "            before = entry.number\n",
        "numbers of messages are not remembered",
    ),
    Mutant(
        RECHECK,
        "        if transaction.admission.has_room_for(head, key, queue):",
        "        if False:",
        "room that was not offered is not noticed",
    ),
    Mutant(
        RECHECK,
        "fits = job.state in PENDING if holding.reserved else job.state is JobState.RUNNING",
        "fits = job.state in PENDING or job.state is JobState.RUNNING",
        "a slot of an attempt that is over passes for a reservation",
    ),
    Mutant(
        RECHECK,
        "(armed is not None and armed <= max(due, transaction.now))",
        "armed is not None",
        "a timer that rings too late is not noticed",
    ),
    Mutant(
        RECHECK,
        "healed = [] if after is not None else _orphans(transaction)",
        "healed = list[str]()",
        "attempts of workers that are not registered are not noticed",
    ),
    Mutant(
        RECHECK,
        "keys[most - 1] if len(keys) > most else None",
        "None",
        "keys behind the first slice are never looked at",
    ),
    Mutant(
        MOVES,
        "            share = _share(job.spec, arguments.share)",
        "            share = job.spec.share",
        "a job with other arguments stays in the share of its old ones",
    ),
    Mutant(
        MOVES,
        "            share=_share(job.spec, spec.share if spec.queue == job.queue else None),",
        "            share=job.spec.share,",
        "a job that is updated stays in its share",
    ),
    Mutant(
        MOVES,
        "            share=_share(job.spec, spec.share if spec.queue == job.queue else None),",
        "            share=_share(job.spec, spec.share),",
        "a job that is updated gets a share of another queue",
    ),
]

_PURE = ("admission", "audit", "blame", "blame_outcomes", "keys", "lifecycle", "limits", "rates", "retry")

HERD = Herd(
    [*MUTANTS, *rates.MEMORY],
    [
        [
            *(f"tests/unit/test_{name}.py" for name in _PURE),
            "tests/conformance",
            "tests/sqlite/test_healing.py",
            "-k",
            "memory or unit",
        ],
        ["tests/worker", "tests/app", "-k", "memory"],
    ],
)
