"""A state machine drives two engines with the same commands and compares all that they show after every one.

The default run is short and always the same. `HYPOTHESIS_PROFILE=explore` looks for new cases, for as long as
`HEADGATE_MODEL_EXAMPLES` and `HEADGATE_MODEL_STEPS` say.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headgate.clock import SECOND
from headgate.engine.contract import (
    Done,
    Engine,
    Exchanged,
    Failed,
    ImportedJob,
    Limit,
    NewArguments,
    Override,
    Progress,
    Released,
    Report,
    Snapshot,
    Snoozed,
    Stopped,
    Succeeded,
    Worker,
)
from headgate.job import Job, JobState, NewJob
from tests.model import vocabulary as words
from tests.model.admitted import Judge
from tests.model.pair import Command, Pair
from tests.support.servers import SERVERS
from tests.support.world import START

pytestmark = pytest.mark.slow(15)

REPORTS = ["succeeds", "fails", "retries", "retries at once", "snoozes", "stops", "is released", "progresses"]


class TwoEngines(RuleBasedStateMachine):
    """Commands in any order. `rival` is the engine compared with the memory engine."""

    rival = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.pair = self.opened()
        self.judge = Judge()
        self.now = START
        self.next_due: int | None = None
        self.tick: int | None = None
        self.numbers = dict.fromkeys(words.WORKER_IDS, 0)
        self.starts: list[tuple[str, int]] = []
        self.snapshot: Snapshot | None = None

    def opened(self) -> Pair:
        """Both stores, empty."""
        return Pair("memory", self.rival)

    def teardown(self) -> None:
        self.pair.close()

    def do(self, command: Command) -> Any:
        """One command, then the comparison."""
        answer = self.pair.do(command)
        self.snapshot = self.pair.compare(self.now)
        self.judge.keep_running(self.snapshot)
        return answer

    # ── beginning ────────────────────────────────────────────────────────────────────────────────────────────────

    @initialize()
    def begin(self) -> None:
        for limit in words.FIRST_LIMITS:
            self.judge.declared[limit.name] = limit
        self.do(lambda engine: engine.declare(words.FIRST_LIMITS, now=self.now))
        for worker in words.WORKERS:
            self.register(worker)

    # ── jobs come ────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(jobs=st.lists(words.jobs(), min_size=1, max_size=4))
    def enqueue(self, jobs: list[NewJob]) -> None:
        self.do(lambda engine: engine.enqueue(jobs, now=self.now))

    @rule(jobs=st.lists(words.jobs(), min_size=1, max_size=2), limit=words.limits())
    def enqueue_with_limits(self, jobs: list[NewJob], limit: Limit) -> None:
        answer = self.do(lambda engine: engine.enqueue(jobs, limits=[limit], now=self.now))
        if isinstance(answer, list):
            self.judge.declared[limit.name] = limit

    @rule(data=st.data(), id=words.ids)
    def take_over(self, data: st.DataObject, id: str) -> None:
        stored = self._stored(id)
        history = stored.history if stored else ()
        record = data.draw(words.imports(history, self.now))
        again = ImportedJob(msgspec.structs.replace(record.job, id=id), record.attempts, record.enqueued_at)
        records = [again, record] if data.draw(st.booleans()) else [again]
        self.do(lambda engine: engine.import_jobs(records, now=self.now))

    @rule(jobs=st.lists(words.jobs(), max_size=1), fresh=st.booleans())
    def tick_over(self, jobs: list[NewJob], fresh: bool) -> None:
        at, seen = self.now, self.tick if fresh else 1
        if self.do(lambda engine: engine.tick("nightly", seen, at, jobs, now=self.now)) is True:
            self.tick = at

    @rule(verb=st.sampled_from(["pause_schedule", "resume_schedule", "resume_schedule"]))
    def steer_schedule(self, verb: str) -> None:
        if self.do(lambda engine: getattr(engine, verb)("nightly", now=self.now)) is True:
            self.tick = self.now if verb == "resume_schedule" else self.tick

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        data=st.data(),
        worker=st.sampled_from(words.WORKER_IDS),
        want=st.sampled_from([0, 1, 1, 2, 5]),
        queues=st.sampled_from(words.SERVED),
        suspects=st.sampled_from([True, True, True, False]),
        threads=st.sampled_from([None, None, 0, 1, 2]),
    )
    def exchange(
        self,
        data: st.DataObject,
        worker: str,
        want: int,
        queues: list[str] | None,
        suspects: bool,
        threads: int | None,
    ) -> None:
        reports = [
            _report(data.draw(st.sampled_from(REPORTS)), view.id, view.attempt)
            for view in (self.snapshot.jobs if self.snapshot else ())
            if view.state is JobState.RUNNING and view.worker == worker and data.draw(st.booleans())
        ]
        self._exchange(worker, reports, want, queues, suspects, threads)

    @rule(
        worker=st.sampled_from(words.WORKER_IDS),
        id=words.ids,
        attempt=st.integers(1, 3),
        kind=st.sampled_from(REPORTS),
    )
    def report_anything(self, worker: str, id: str, attempt: int, kind: str) -> None:
        self._exchange(worker, [_report(kind, id, attempt)], 0, None)

    def _exchange(
        self,
        worker: str,
        reports: list[Report],
        want: int,
        queues: list[str] | None,
        suspects: bool = True,
        threads: int | None = None,
        number: int | None = None,
    ) -> None:
        number = self._next(worker) if number is None else number

        async def command(engine: Engine) -> Exchanged:
            return await engine.exchange(
                worker, reports, want, queues, number=number, suspects=suspects, threads=threads, now=self.now
            )

        answer = self.do(command)
        if not isinstance(answer, Exchanged):
            return
        self.starts += [(attempt.job, attempt.number) for attempt in answer.attempts]
        self.next_due = answer.next_due
        for attempt in answer.attempts:
            job = self._stored(attempt.job)
            assert job is not None
            self.judge.start(_spec(job), attempt.number, self.now)
        self.judge.judge([attempt.job for attempt in answer.attempts])

    @rule(queues=st.sampled_from(words.SERVED), most=st.integers(2, 12))
    def run_one_after_the_other(self, queues: list[str] | None, most: int) -> None:
        """A worker of one place: each exchange ends a job and claims the next, whose slot came back in this step. What
        is compared is the order of starts."""
        reports: list[Report] = []
        for _ in range(most):
            before = len(self.starts)
            self._exchange("w1", reports, 1, queues)
            reports = [Succeeded(id, attempt) for id, attempt in self.starts[before:]]
            if not reports:
                break
        self._exchange("w1", reports, 0, queues)

    def _next(self, worker: str) -> int:
        self.numbers[worker] += 1
        return self.numbers[worker]

    @rule(worker=st.sampled_from(words.WORKER_IDS), late=st.integers(0, 2), want=st.sampled_from([0, 2]))
    def stale_message(self, worker: str, late: int, want: int) -> None:
        """A message that a later one has overtaken, or the last one once more."""
        self._exchange(worker, [], want, None, number=max(0, self.numbers[worker] - late))

    @rule(
        worker=st.sampled_from(words.WORKER_IDS),
        late=st.sampled_from([None, None, None, 0, 1]),
        data=st.data(),
    )
    def resume_worker(self, worker: str, late: int | None, data: st.DataObject) -> None:
        """The worker knows some of what it runs, and some that it does not."""
        number = self._next(worker) if late is None else max(0, self.numbers[worker] - late)
        running = [
            (view.id, view.attempt)
            for view in (self.snapshot.jobs if self.snapshot else ())
            if view.state is JobState.RUNNING and view.worker == worker
        ]
        known = [pair for pair in running if data.draw(st.booleans())]
        known += data.draw(st.lists(st.tuples(words.ids, st.integers(1, 3)), max_size=2))
        self.do(lambda engine: engine.resume_worker(worker, number, known, now=self.now))

    @rule(
        workers=st.lists(
            st.sampled_from([*words.WORKER_IDS, "stranger"]), min_size=1, max_size=2, unique=True
        )
    )
    def report_lost(self, workers: list[str]) -> None:
        self.do(lambda engine: engine.report_lost(workers, now=self.now))

    @rule(most=st.sampled_from([1, 3, 100]))
    def recheck(self, most: int) -> None:
        """A healthy store has nothing to mend."""
        after: str | None = None
        for engine in self.pair.engines:
            for _ in range(1000):
                answer = self.pair.run(engine.recheck(after, most=most, now=self.now))
                assert answer.healed == ()
                if (after := answer.after) is None:
                    break
        self.snapshot = self.pair.compare(self.now)

    @rule(worker=st.sampled_from(words.WORKERS))
    def register(self, worker: Worker) -> None:
        self.numbers[worker.id] = 0
        self.do(lambda engine: engine.register(worker, now=self.now))

    @rule(worker=st.sampled_from(words.WORKER_IDS), done=st.lists(words.done(), max_size=2))
    def heartbeat(self, worker: str, done: list[Done]) -> None:
        self.do(lambda engine: engine.heartbeat(worker, done=done, now=self.now))

    @rule(worker=st.sampled_from(words.WORKER_IDS))
    def retire(self, worker: str) -> None:
        self.do(lambda engine: engine.retire(worker, now=self.now))

    # ── steering ─────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(verb=st.sampled_from(["cancel", "cancel", "restart", "expedite", "delete"]), ids=words.some_ids)
    def steer(self, verb: str, ids: list[str]) -> None:
        self.do(lambda engine: getattr(engine, verb)(ids, now=self.now))

    @rule(ids=words.some_ids, arguments=words.arguments())
    def restart_with_arguments(self, ids: list[str], arguments: NewArguments) -> None:
        self.do(lambda engine: engine.restart(ids, arguments=arguments, now=self.now))

    @rule(verb=st.sampled_from(["pause", "resume", "resume"]), queue=st.sampled_from(words.QUEUES))
    def pause(self, verb: str, queue: str) -> None:
        self.do(lambda engine: getattr(engine, verb)(queue, now=self.now))

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(limit=words.limits())
    def declare(self, limit: Limit) -> None:
        self.do(lambda engine: engine.declare([limit], now=self.now))
        self.judge.declared[limit.name] = limit

    @rule(data=st.data())
    def override(self, data: st.DataObject) -> None:
        override: Override = data.draw(words.overrides(self.now))
        if self.do(lambda engine: engine.override(override, now=self.now)) is None:
            self.judge.overridden[override.name, override.value, override.tenant] = override

    @rule(scope=words.scopes())
    def clear(self, scope: tuple[str, str | None, str | None]) -> None:
        self.do(lambda engine: engine.clear_override(*scope, now=self.now))
        self.judge.overridden.pop(scope, None)

    @rule(key=st.sampled_from(words.FLOATING), number=st.integers(0, 3))
    def compute(self, key: str, number: int) -> None:
        self.do(lambda engine: engine.compute(key, number, now=self.now))
        self.judge.computed[key] = number

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(pause=words.microseconds)
    def time_passes(self, pause: int) -> None:
        self.now += pause
        self.snapshot = self.pair.compare(self.now)

    @rule(pause=words.microseconds)
    def sweep(self, pause: int) -> None:
        self.now += pause
        self.next_due = self.do(lambda engine: engine.sweep(now=self.now)).next_due
        self.judge.forget(self.now)

    @precondition(lambda self: self.next_due is not None)
    @rule()
    def sleep_until_due(self) -> None:
        assert self.next_due is not None
        self.now = max(self.now, min(self.next_due, self.now + 60 * SECOND))
        self.sweep(0)

    def _stored(self, id: str) -> Job | None:
        async def ask(engine: Engine) -> list[Job | None]:
            return await engine.get([id])

        return self.pair.run(ask(self.pair.engines[0]))[0]


def _report(kind: str, id: str, attempt: int) -> Report:
    match kind:
        case "succeeds":
            return Succeeded(id, attempt, '"done"')
        case "fails":
            return Failed(id, attempt, "boom")
        case "retries":
            return Failed(id, attempt, "boom", SECOND)
        case "retries at once":
            return Failed(id, attempt, "boom", 0)
        case "snoozes":
            return Snoozed(id, attempt, 2 * SECOND)
        case "stops":
            return Stopped(id, attempt, "stopped")
        case "is released":
            return Released(id, attempt)
        case _:
            return Progress(id, attempt, "0.5")


def _spec(job: Job) -> NewJob:
    return NewJob(id=job.id, task=job.task, queue=job.queue, tenant=job.tenant, uses=job.uses)


EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
SETTINGS = settings(
    max_examples=int(os.environ.get("HEADGATE_MODEL_EXAMPLES", "1000" if EXPLORING else "60")),
    stateful_step_count=int(os.environ.get("HEADGATE_MODEL_STEPS", "60" if EXPLORING else "40")),
    derandomize=not EXPLORING,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.mark.timeout(0 if EXPLORING else 300)
@pytest.mark.parametrize("rival", sorted({*SERVERS} - {"memory"}))
def test_both_engines_show_the_same_after_every_command(rival: str) -> None:
    machine = type(f"Memory_and_{rival}", (TwoEngines,), {"rival": rival})
    case = machine.TestCase
    case.settings = SETTINGS
    case().runTest()
