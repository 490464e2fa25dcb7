"""The SQLite engine: its ledger, its statements, its short cuts. The rules themselves are those of the memory herd."""

from __future__ import annotations

import re

from tests.mutants import rates
from tests.mutants.mutant import SOURCE, Herd, Mutant

LEDGER, STEP, REPORT, SWEEP, CLAIM, TURN, OVERVIEW, METER, SHARES, CROWD, ROWS, BOOK = (
    f"engine/sqlite/{name}.py"
    for name in (
        "ledger",
        "transaction",
        "reporting",
        "sweeping",
        "claiming",
        "claim_context",
        "overview",
        "metering",
        "sharing",
        "crowd",
        "rows",
        "rule_book",
    )
)


AREAS = {
    name: area.stem
    for area in (SOURCE / "engine/sqlite/statements").glob("*.sql")
    for name in re.findall(r"^-- name: (\w+)$", area.read_text(), re.MULTILINE)
}
"""The file of each statement."""


def _statement(name: str, find: str, replace: str, breaks: str) -> Mutant:
    """A mutant of one section of a file, in which the text occurs once."""
    file = f"engine/sqlite/statements/{AREAS[name]}.sql"
    start = f"-- name: {name}\n"
    section = start + (SOURCE / file).read_text().partition(start)[2].partition("-- name: ")[0]
    once = section.count(find) == 1
    return Mutant(file, section if once else find, section.replace(find, replace) if once else find, breaks)


MUTANTS = [
    # how the store stands
    Mutant(OVERVIEW, "of_key(transaction, Key.of(ident), max(most + 1, COUNTED_MOST))", "of_key(transaction, Key.of(ident))", "a key with more than a thousand holders shows room"),
    Mutant(OVERVIEW, "        if count == most:\n            partial.add(state)", "        pass", "totals that stopped counting do not say so"),
    Mutant(OVERVIEW, "islice(merge(*lines), most)", "islice((row for line in lines for row in line), most)", "waiters of a key are shown queue by queue"),
    Mutant(OVERVIEW, "key=lambda key: (-found[key], key)", "key=lambda key: (found[key], key)", "the tightest keys are the loosest"),
    Mutant(STEP, "            there.add(pair)\n", "", "a beat tells any number of queues apart"),
    _statement("in_states", "ORDER BY seq DESC", "ORDER BY seq", "the first jobs of a rare state are the oldest"),
    _statement("forget_history", "WHERE at <= ?1", "WHERE at < ?1", "history is kept a moment too long"),
    _statement("history", "WHERE at >= ?1", "WHERE at > ?1", "history begins a minute late"),
    # the ledger's counts
    Mutant(LEDGER, "            self._held[key] += units\n", "            pass\n", "a slot that is taken does not count in its own step"),
    Mutant(LEDGER, "            self._offered[offered_by, job.queue] += units\n", "            pass\n", "an offer does not count in its own step"),
    Mutant(LEDGER, "            for job in jobs\n            for key in (job.keys", "            for job in jobs[:1]\n            for key in (job.keys", "of several attempts that end only the first gives its slots back"),
    Mutant(LEDGER, "        for key in keys:\n            self._held.pop(key, None)\n\n    def take_offer_back", "        pass\n\n    def take_offer_back", "slots that come back count until the step ends"),
    Mutant(LEDGER, "gone = [key for key in self._reservations(job) if key not in keep]", "gone = self._reservations(job)", "a job that is refused again keeps no reservation"),
    Mutant(LEDGER, "        self._waited[on.key, job.queue] = True", "", "the first to wait is not seen by those that come behind it"),
    Mutant(LEDGER, "            job.waiting_on, job.offered_by, job.units = None, offered_by, units\n", "            job.waiting_on, job.offered_by, job.units = None, offered_by, 0\n", "an offer counts for nothing in later steps"),
    Mutant(LEDGER, "        if key in self._stale or self._new or self._changed:\n            self.flush()\n        elif", "        if", "the line is read before what was decided is written"),
    Mutant(LEDGER, "            self._limit_reservations(job, self.now + self.settings.reservation_ttl)", "            self._limit_reservations(job, None)", "an offered job's reservations have no end"),
    Mutant(LEDGER, "        return job.refusals is not None and job.refusals >= self.reserving", "        return False", "reservations are not seen"),
    Mutant(LEDGER, "            self.drop_reservation(key, job.seq)\n        return gone", "            pass\n        return gone", "a reservation that is not needed stays"),
    Mutant(LEDGER, "        keys = {key: None for key, _ in rows}\n        self._recount(keys)\n        return keys", "        keys = {key: None for key, _ in rows}\n        self._recount(keys)\n        return {}", "slots that come back are not offered"),
    Mutant(LEDGER, '            self.executemany(sql("drop_one"), rows)', "            pass", "slots of a few jobs are not given back"),
    Mutant(LEDGER, '            self.execute(sql("drop"), (to_json(rows),))', "            pass", "slots of many jobs are not given back"),
    Mutant(METER, '            self._execute(sql("forget_starts"), (key, self._now - pace.period))\n', "            self._execute(sql(\"forget_starts\"), (key, self._now))\n", "a window forgets its starts too soon"),
    Mutant(METER, '            self._execute(sql("put_meter"), (key, bucket.full_at, bucket.since, bucket.refunded))\n', "", "what was spent of a bucket is not written"),
    Mutant(LEDGER, '            self.execute(sql("disarm"), (key,))', "            pass", "a rate's timer is not cleared"),
    Mutant(LEDGER, '            self.execute(sql("arm"), (key, at))', "            pass", "a rate's timer is not set"),
    Mutant(LEDGER, "            self.filled.add(job.queue)\n", "", "a job that comes back at once is not seen by the claim of the same step"),
    # statements
    _statement("claimable", "ORDER BY priority, tag, due, seq", "ORDER BY tag, due, seq", "priorities do not count among ready jobs"),
    _statement("claimable", "AND set_aside = 0", "", "jobs of unknown tasks stand in the way"),
    _statement("claimable_aside", "ORDER BY priority, tag, due, seq", "ORDER BY seq", "priorities do not count among jobs that were set aside"),
    _statement("waiters", "ORDER BY priority, tag, due, seq", "ORDER BY seq", "priorities do not count among waiters"),
    _statement("waited_for", "ORDER BY f.priority, f.tag, f.due, f.seq LIMIT 1", "ORDER BY f.seq LIMIT 1", "the head of a line is not the first in order"),
    _statement("waited_for", "(SELECT coalesce(sum(h.units), 0) FROM holders h WHERE h.key = q.key)", "0", "a key that is looked at seems free"),
    _statement("offered", "AND j.queue = k.value ->> 1", "", "offers of other queues count"),
    _statement("due", "due <= ?1", "due < ?1", "a job is not due at its very time"),
    _statement("due_timers", "at <= ?1", "at < ?1", "a rate's timer is late by an instant"),
    _statement("expired_reservations", "expires_at <= ?1", "expires_at <= ?1 AND 0", "reservations never run out"),
    _statement("lapsed", "lease_until <= ?1", "lease_until < ?1", "a lease lapses an instant late"),
    _statement("rival", "AND taken IS NOT NULL", "AND taken IS NOT NULL AND state <> 'running'", "a running job is no rival"),
    _statement("adopt", "(?3 IS NULL OR task = ?3)", "1", "a cap of a task counts jobs of other tasks"),
    _statement("adopt", "WHERE state = 'running'", "WHERE state = 'never'", "a new cap does not count what runs already"),
    _statement("progress", "AND worker = ?3", "", "progress of another worker counts"),
    _statement("succeed_one", "AND attempt = ?5", "", "a success of an old attempt counts"),
    _statement("succeed_own", "AND jobs.attempt = r.column2", "", "a success of an old attempt counts among many"),
    _statement("start_few", "attempt = attempt + 1, tries = tries + 1", "attempt = attempt + 1", "an attempt does not count"),
    _statement("park", "offered_by = NULL, units", "units", "a parked job stays offered"),
    _statement("make_ready", "offered_by = r.value ->> 1", "offered_by = NULL", "an offered job does not count as offered"),
    _statement("cancelling", "AND cancel_requested = 1", "AND cancel_requested = 2", "a worker is not told of cancels"),
    # reports and their short cuts
    Mutant(REPORT, "    transaction.admission.give_back(list(done.values()))\n", "", "a success keeps its slots"),
    Mutant(REPORT, "        done = {id: ended for id, ended in done.items() if _ended_now(transaction, id, worker)}\n", "        pass\n", "a success that was refused gives slots back"),
    Mutant(REPORT, "        or job.attempt != report.attempt\n", "", "a report about an old attempt counts"),
    Mutant(REPORT, "        or job.worker != worker\n", "", "a report about another worker's attempt counts"),
    Mutant(REPORT, "    own = [claim for claim in found if claim is not None and claim.terms == transaction.book.terms]", "    own = [claim for claim in found if claim is not None]", "the short cut for own claims is taken though caps have changed"),
    Mutant(REPORT, "        or job.state is not JobState.RUNNING\n", "", "a report about an attempt that has ended counts"),
    # time
    Mutant(SWEEP, "    timers = _timers(transaction)\n", "    timers = 0\n", "a rate's timer is never looked at"),
    Mutant(SWEEP, "    _reservations(transaction)\n    unsettled", "    unsettled", "the sweep leaves reservations alone"),
    Mutant(SWEEP, "        transaction.ledger.drop_reservation(key, seq)\n        transaction.admission.touch(key)", "        transaction.ledger.drop_reservation(key, seq)", "a reservation that ran out wakes nothing"),
    Mutant(SWEEP, "        if override.until is not None and override.until <= transaction.now:", "        if False:", "overrides never run out"),
    # what cannot be read
    Mutant("engine/sqlite/garbled.py", "again = self.expanded_sql if self.is_readonly else None", "again = None", "rows with garbled text are left out"),
    Mutant(CLAIM, "        if self.context.garbled:\n            self._end_those_in_garbled_queues()\n", "", "a job in a queue whose name is garbled stays ready for ever"),
    Mutant(TURN, "or not _readable(*self._row[1:6]) ", "", "a worker whose row cannot be read fails instead of being lost"),
    Mutant(STEP, "            self.garbled_keys += [key for (key,) in rows if isinstance(key, bytes)]\n", "", "a job that waits on a garbled key waits for ever"),
    _statement("lapsed", "lease_until >= ''", "0", "a lease that ends at no time never lapses"),
    _statement("due", "due >= ''", "0", "a job whose due time is no number is never met"),
    # slices
    Mutant(STEP, "            self.book.unsettled |= {scope[0]}\n            self.call_workers = True\n", "            self.book.unsettled |= {scope[0]}\n", "no worker hears that a change has more to do"),
    Mutant(STEP, '            self.execute(sql("put_unsettled"), (scope[0], page.rest))\n', "            pass\n", "a change of many keys ends with its first slice"),
    _statement("end_exchange", "(SELECT 0 FROM unsettled LIMIT 1)", "NULL", "a worker does not go on with a change at once"),
    # sizes
    Mutant(LEDGER, "            self.executemany(sql(\"take_sized\"), self._sized)\n", "", "a job that takes several slots takes none"),
    _statement("take_sized", "?3, ?4)", "?3, 1)", "a job that takes several slots takes one"),
    _statement("held", "sum(h.units)", "count(*)", "held counts holders, not units"),
    Mutant(LEDGER, "return self._reservations(job).get(key, 0) if", "return min(self._reservations(job).get(key, 0), 1) if", "of a reservation of several slots one counts"),
    # what becomes of jobs without room
    Mutant(CROWD, "            self._known[line] = count + 1, exact\n", "            pass\n", "newcomers of one batch do not count for each other"),
    Mutant(LEDGER, "            self._crowd.waiting.forget(key)\n", "            pass\n", "a line that became shorter counts as it was"),
    Mutant(LEDGER, "            self._crowd.backlog.forget(queue)\n", "            pass\n", "a backlog that became shorter counts as it was"),
    _statement("last_in_line", "SELECT max(m.priority)", "SELECT min(m.priority)", "the most urgent waiter leaves"),
    _statement("last_in_line", "ORDER BY w.priority DESC", "ORDER BY w.priority", "of several queues' waiters not the least urgent leaves"),
    _statement("last_in_backlog", "SELECT max(m.priority)", "SELECT min(m.priority)", "the most urgent job of a queue leaves"),
    _statement("longest_running", "ORDER BY h.since, h.job", "ORDER BY h.since DESC, h.job", "the job that started last is asked to stop"),
    _statement("longest_running", "AND j.cancel_requested = 0", "", "a job that was asked to stop is asked again"),
    Mutant(ROWS, "job.queue if pending and job.queue in bounded else None,", "None,", "a bounded backlog is not counted"),
    _statement("mark_backlog", "seq < ?3", "seq < ?2", "a backlog that is bounded later is not counted"),
    # latest starts
    Mutant(SWEEP, "    late = _too_late(transaction)\n", "    late = 0\n", "the sweep leaves jobs that are too late alone"),
    _statement("late", "late_at <= ?1", "late_at < ?1", "a job may start at the very time by which it must have started"),
    _statement("end_exchange", "(SELECT CAST(min(late_at) AS INTEGER) FROM jobs WHERE late_at IS NOT NULL)", "NULL", "no worker hears when a job will be too late"),
    _statement("start_with_extras", "start_by = NULL, late_at = NULL,", "start_by = start_by,", "a job that runs ends because it has not started"),
    # unique keys
    _statement("start_with_extras", "CASE WHEN updates THEN NULL ELSE taken END", "taken", "a job that updates keeps its key while it runs"),
    _statement("start_with_extras", "WHEN attempt = 0 AND unique_for", "WHEN unique_for", "each attempt makes a unique key last longer"),
    _statement("succeed", "AND jobs.extras < 2", "", "a unique key that is kept for a time is free at once where another process claimed"),
    Mutant(REPORT, " or (claim is not None and claim.extras & AT_END)", "", "a unique key that is kept for a time is free at once"),
    _statement("save_arguments", ", metadata = ?4, headers = ?5", "", "an update leaves metadata as it was"),
    # numbers, costs, gates
    Mutant(BOOK, "        super().changed()\n        self._known.clear()\n", "        super().changed()\n", "a number that another process has learnt is not seen"),
    Mutant(BOOK, "        self.gates = {key: Gate(opens_at, step) for key, opens_at, step in execute(sql(\"gates\"))}\n", "", "a key that another process has closed is open"),
    Mutant(LEDGER, "            self.executemany(sql(\"put_spent\"), rows)\n", "", "what a start has spent cannot be corrected"),
    Mutant(METER, "        for at, units in (before - after).elements():\n            self._execute(sql(\"forget_start\"), (key, at, units))\n", "", "a correction of a window counts beside the estimate"),
    Mutant(SWEEP, "    _gates(transaction)\n", "", "a throttled key is never open wide"),
    # shares
    Mutant(SHARES, "            if line in self._unsure:", "            if False:", "a job that was replaced stands before the newcomer in its share"),
    _statement("start_with_extras", "share_line = NULL, ", "", "what has started still counts as waiting in its share"),
    Mutant(SHARES, "        self._last[queue, priority, share] = tag\n", "        self._last.setdefault((queue, priority, share), tag)\n", "newcomers of one batch have the same tag"),
    Mutant(SHARES, "            self._advanced[place] = tag\n", "            pass\n", "a queue's virtual time stands still"),
    Mutant(SHARES, "            row = (*row[:-2], *rest)\n", "", "tagging anew begins again with each slice"),
    Mutant(SWEEP, "    sliced = transaction.next_slice()\n", "    sliced = False\n", "tagging anew ends with its first slice"),
    _statement("advance", "max(tag, excluded.tag)", "excluded.tag", "a queue's virtual time goes back"),
    _statement("idle_places", "AND r.tag > 0", "AND r.tag < 0", "a queue's virtual time is forgotten while jobs of shares run"),
    _statement("claimable", "ORDER BY priority, tag, due, seq", "ORDER BY priority, due, seq", "shares do not count among ready jobs"),
    _statement("waiters", "ORDER BY priority, tag, due, seq", "ORDER BY priority, due, seq", "shares do not count among waiters"),
    # claims
    Mutant(CLAIM, "        return sorted(names - self.context.paused)", "        return sorted(names)", "paused queues are worked by workers of all queues"),
    Mutant(CLAIM, "if name not in self.context.paused]", "]", "paused queues are worked by workers that name them"),
    Mutant(CLAIM, "        fit = set(self._room().first(job for job in found if job.task in able))", "        fit = set(found)", "any number of suspects run beside each other"),
]  # fmt: skip

HERD = Herd(
    [*MUTANTS, *rates.SQLITE],
    [
        ["tests/conformance", "tests/sqlite", "-k", "sqlite", "-m", "not slow"],
        ["tests/model", "-k", "sqlite"],
        ["tests/app", "tests/processes", "-k", "sqlite"],
    ],
)
