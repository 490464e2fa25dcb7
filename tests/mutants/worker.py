"""The worker: exchanges, doubt, leases, outcomes, stopping. The same on every store."""

from __future__ import annotations

from tests.mutants.mutant import Herd, Mutant

LOOP, MESSAGES, LEASE, OUTBOX, RUNNER, RUN, OUTCOME, WORKER_RUN, PART_RUN, SUSPECTS, CAPACITY, TALLY, TICKER, SWEEP, TIMING, DUTY = (
    f"worker/{name}.py"
    for name in (
        "run/exchange_loop", "run/messages", "run/lease", "run/outbox", "run/runner", "run/running_attempt", "run/outcome", "run/worker_run", "run/part_run",
        "run/suspects", "run/capacity", "run/tally", "duties/ticker", "duties/sweep", "timing", "duties/duty",
    )
)  # fmt: skip

MUTANTS = [
    # history
    Mutant(TALLY, "        rows, self._rows = self._rows, {}\n", "        rows = self._rows\n", "what was done is told with every beat again"),
    Mutant(RUNNER, "                run.begun = True\n", "", "a start counts once per beat"),
    Mutant(PART_RUN, "                if done := self.runner.done():\n                    await self.lease.renew(done)\n", "", "what was done since the last beat is not told"),
    Mutant(TICKER, "            if task.name not in paused:\n                await", "            if True:\n                await", "jobs of a paused task are prepared in vain"),
    # exchanges and doubt
    Mutant(MESSAGES, "        self._number += 1\n", "        self._number = max(self._number, 1)\n", "messages are not numbered anew"),
    Mutant(MESSAGES, "        self.doubt = True\n        if self._unanswered", "        if self._unanswered", "a message without an answer leaves no doubt"),
    Mutant(LOOP, "            self._outbox.put_back(reports)", "            pass", "reports that were not sent are lost"),
    Mutant(LOOP, "        if self._holds(id):\n            await self._receive(answer, len(reports), want, threads, self._answered_at - sent)", "        if True:\n            await self._receive(answer, len(reports), want, threads, self._answered_at - sent)", "what came under a lost lease is run"),
    Mutant(MESSAGES, "        with within(self._seconds):\n            answer = await message(self._number)", "        answer = await message(self._number)", "an exchange has no deadline"),
    Mutant(LOOP, "known = self._lease.id, [*self._runner.known, *self._outbox.known]", "known = self._lease.id, [*self._runner.known]", "attempts whose outcome waits to be sent are given back"),
    Mutant(LOOP, "known = self._lease.id, [*self._runner.known, *self._outbox.known]", "known = self._lease.id, [*self._outbox.known]", "running attempts are given back after a doubt"),
    Mutant(LOOP, "        abandoned = self._runner.abandon(alive)\n", "        abandoned = 0\n", "what is no longer this worker's runs on"),
    Mutant(LOOP, "        self._outbox.keep(alive)\n", "", "outcomes of attempts that were taken back are sent"),
    Mutant(LOOP, "        self._runner.cancel(resumed.cancelling)\n", "", "a cancel in the answer to a resume is missed"),
    Mutant(LOOP, "            self._runner.cancel(answer.cancelling)\n", "            pass\n", "a cancel in the answer to an exchange is missed"),
    Mutant(LOOP, "        if answer.more:\n            self._woken = True\n", "", "a worker does not ask again where there is more"),
    Mutant(LOOP, "                self._outbox.settle(Released(attempt.job, attempt.number))\n            else:", "                pass\n            else:", "jobs that came while it was told to stop are kept"),
    Mutant(LOOP, "        return self._capacity.want(self._outbox.waiting) if self.claiming else 0", "        return self._capacity.want(self._outbox.waiting)", "a worker that stops claims on"),
    Mutant(LOOP, "            except LeaseLost:\n                self._lease.lose(self._lease.id, LAPSED)", "            except LeaseLost:\n                pass", "a lapsed lease is not noticed in an exchange"),
    Mutant(LOOP, "        self._sweep.expect(answer.next_due, answer.now)\n", "", "what is due soon waits for the next regular sweep"),
    Mutant(LOOP, "        self._poll_at = self._answered_at + jittered(POLL)", "        self._poll_at = self._answered_at + 3600", "a lost ring is never noticed"),
    # leases
    Mutant(LEASE, "        self._until = sent + self.timing.fence\n        self._arm()", "        self._until = sent + self.timing.fence", "a worker does not fence itself"),
    Mutant(LEASE, "            self._until = max(self._until, sent + self.timing.fence)", "            pass", "a renewal does not prolong the lease"),
    Mutant(LEASE, "            self._disarm()\n            self._lost(why)", "            self._disarm()", "a worker that lost its lease runs its jobs on"),
    Mutant(LEASE, '        id = f"{self._options.name}-{os.urandom(4).hex()}"', "        id = self._options.name", "an id of a registration is used again"),
    Mutant(LEASE, "        if self._lease.held and (seconds := self._stuck_for()) > timing.stuck:", "        if self._lease.held and (seconds := self._stuck_for()) > 1e9:", "the lease is renewed though no exchange gets through"),
    Mutant(LEASE, "            self._runner.cancel(beat.cancelling)\n", "", "a cancel in the answer to a heartbeat is missed"),
    Mutant(LEASE, "                await self._part.retire(self.id)\n", "                pass\n", "a worker goes without retiring"),
    Mutant(TIMING, "        self.fence = lease * 0.95", "        self.fence = lease * 1.5", "a worker fences itself after the store has given its jobs away"),
    Mutant(TIMING, "        self.renewal = lease / 3", "        self.renewal = lease * 2", "leases are renewed too late"),
    # outcomes
    Mutant(OUTBOX, "        self._outcomes[:0] = outcomes\n", "        self._outcomes += outcomes\n", "what could not be sent goes last next time"),
    Mutant(OUTBOX, "        self._outcomes.append(outcome)\n        self._bell.ring()", "        self._outcomes.append(outcome)", "an outcome waits for the next poll"),
    Mutant(OUTBOX, "        return [*progress.values(), *spent.values(), *outcomes]", "        return [*spent.values(), *outcomes, *progress.values()]", "progress is reported after the outcome"),
    Mutant(OUTCOME, "    again = attempt.tries < attempt.retry.attempts and retry.covers(error)", "    again = retry.covers(error)", "retries have no end"),
    Mutant(OUTCOME, "    again = attempt.tries < attempt.retry.attempts and retry.covers(error)", "    again = attempt.tries < attempt.retry.attempts", "exceptions that should not be retried are"),
    Mutant(OUTCOME, '        case "release":\n            return Released(attempt.job, attempt.number)\n', "", "a job that is given back fails"),
    Mutant(OUTCOME, "    if attempt.tries >= attempt.retry.attempts:\n        return None\n", "", "RetryLater has no end"),
    # running
    Mutant(RUNNER, "(r.attempt.job, r.attempt.number) not in alive]", "r.attempt.job not in {job for job, _ in alive or ()}]", "an old attempt of a job runs on because a new one is alive"),
    Mutant(RUNNER, "            del self.running[run.attempt.job]\n            run.interrupt(\"abandon\")", "            del self.running[run.attempt.job]", "what is abandoned is not cancelled"),
    Mutant(RUNNER, "            if run.stop_reason is not None:\n                raise asyncio.CancelledError\n            if surrounded", "            if surrounded", "a coroutine that was cancelled before it began runs"),
    Mutant(RUNNER, "        self._capacity.give()\n", "", "a place is not given back"),
    Mutant(RUNNER, "        if run.timer is not None:\n            run.timer.cancel()\n", "", "timers of ended attempts run on"),
    Mutant(RUN, '        if self.stop_reason is None or reason == "abandon":', "        if True:", "a later reason to end counts"),
    Mutant(RUN, "            self.context.ask_to_end()\n", "", "a thread does not see that it should end"),
    Mutant(CAPACITY, "        free = self._concurrency - self.taken\n", "        free = self._concurrency - self.taken + 1\n", "a worker runs one job too many"),
    Mutant(CAPACITY, "            return free if share.needs is None else min(free, share.needs.free)\n", "            return free\n", "jobs hold slots while they wait for a process of the pool"),
    Mutant(SUSPECTS, "        if self._holder is part or (self._holder is None and first is part):", "        if True:", "several parts claim suspects at once"),
    # duties and stopping
    Mutant(TICKER, "        if last is None:\n            await self._engine.tick(task.name, None, now, ())", "        if last is None:\n            await self._engine.tick(task.name, None, now, [tick_job(task, now)])", "a new periodic task runs at once"),
    Mutant(TICKER, 'id=f"{task.name}@{text}", at=tick', "at=tick", "two workers make two jobs of one tick"),
    Mutant(DUTY, "    if duty.asked:\n        backoff.reset()", "    if True:\n        backoff.reset()", "a heartbeat that was not sent says that the store is back"),
    Mutant(SWEEP, "        if swept.more:\n            self._next = 0.0\n            return SHORTEST_PAUSE\n", "", "a sweep that has more to do waits for the next one"),
    Mutant(WORKER_RUN, "            part.exchange.claiming = False\n", "            pass\n", "a stopping worker claims while it waits"),
    Mutant(WORKER_RUN, "            for part in self.parts:\n                part.runner.release()\n", "", "a stopping worker does not ask its jobs to end"),
    Mutant(PART_RUN, "capacity.share(self._wake, pool, threads if threaded else None)", "capacity.share(self._wake, pool or (threads if threaded else None), threads)", "jobs of the event loop wait for threads"),
    Mutant(CAPACITY, "        return None if free >= want else free\n", "        return None\n", "more synchronous jobs are claimed than there are threads"),
    Mutant(CAPACITY, "        self._short = self._threads if short and not hungry else None\n        if hungry or short:\n", "        if hungry:\n", "a part that lacked a thread is not told of one"),
    Mutant(CAPACITY, "return max(0, threads.free - sum(other.asked_threads for other in self._shares if other is not share))", "return max(0, threads.free)", "two parts ask for the same thread"),
    Mutant(LOOP, "            if room <= 0 or (threaded and not self._runner.free_threads):\n", "            if room <= 0:\n", "a job that comes too late for its thread holds its slots while it waits for one"),
    Mutant(PART_RUN, "        if self.runner.running:\n            self.lease.leave()\n            return\n", "", "a worker retires while a thread of it runs on"),
    Mutant(OUTCOME, "            if (wrong := _names_no_limit(run, control)) is not None:\n                return _by_policy(run, wrong)\n", "", "a throttle by a misspelt limit passes in silence"),
    Mutant("hooks/context.py", "            if name not in rates:", "            if False:", "what was spent of a misspelt limit passes in silence"),
]  # fmt: skip

HERD = Herd(
    MUTANTS,
    [
        ["tests/worker", "-k", "not postgres", "-m", "not slow"],
        ["tests/app", "tests/processes", "-k", "sqlite or memory"],
    ],
)
