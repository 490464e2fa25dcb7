"""Stand-ins and small words for worker tests: a task without an app, a watcher of events, an engine that fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from headgate.engine import deadline
from headgate.engine.contract import Attempt, Beat, Done, Engine, Exchanged, Known, Report, Resumed, Settings
from headgate.engine.memory import MemoryEngine
from headgate.errors import EngineUnavailable, LeaseLost, PayloadError
from headgate.hooks.dependencies import Dependency
from headgate.hooks.hooks import Hooks
from headgate.ids import new_id
from headgate.job import Job, NewJob
from headgate.periodic import Schedule
from headgate.retry import LOST_ONLY, Retry, RetryPolicy
from headgate.worker import Event, Worker
from headgate.worker.events import Events
from headgate.worker.options import options
from headgate.worker.run.capacity import Capacity
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.runner import Runner
from headgate.worker.run.surroundings import Surroundings
from headgate.worker.run.threads import Threads

PATIENCE = 20


class StandIn:
    """The shape of a task, without an app."""

    def __init__(
        self, name: str, fn: Callable[..., Any], retry: Retry = LOST_ONLY, schedule: Schedule | None = None
    ) -> None:
        self.name = name
        self.fn = fn
        self.is_async = inspect.iscoroutinefunction(fn)
        self.in_process = False
        self.retry = retry
        self.schedule = schedule
        self.dependencies: dict[str, Dependency] = {}
        self.learning = None

    def decode(self, args: str | bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return (), msgspec.json.decode(args, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise PayloadError(f"arguments do not fit: {error}") from None

    def encode_result(self, value: Any) -> str:
        try:
            return msgspec.json.encode(value).decode()
        except TypeError as error:
            raise PayloadError(f"result cannot travel: {error}") from None

    def job(self, **args: Any) -> NewJob:
        text = msgspec.json.encode(args).decode()
        return NewJob(id=new_id(), task=self.name, args=text, retry=self.retry.policy)


def tasks(*stand_ins: StandIn) -> dict[str, StandIn]:
    """A worker's mapping of tasks."""
    return {each.name: each for each in stand_ins}


def runner_of(
    loop: asyncio.AbstractEventLoop,
    task: StandIn,
    outbox: Outbox,
    threads: Threads,
    hooks: Hooks | None = None,
) -> Runner:
    """A runner of one task at a time."""
    capacity = Capacity(1)
    surroundings = Surroundings(hooks or Hooks(), options(), threads)
    return Runner(loop, tasks(task), outbox, threads, capacity, surroundings, Events())


def attempt(job: str, task: str, **fields: Any) -> Attempt:
    """A claimed job, as an engine would hand it out."""
    plain = Attempt(
        job=job,
        number=1,
        task=task,
        queue="default",
        args="{}",
        tenant="",
        priority=50,
        tries=1,
        retry=RetryPolicy(),
        timeout=None,
        metadata=None,
        enqueued_at=0,
        started_at=0,
    )
    return msgspec.structs.replace(plain, **fields)


async def put(engine: Engine, task: StandIn, *, args: dict[str, Any] | None = None, **fields: Any) -> str:
    """Enqueue one job; returns its id."""
    job = msgspec.structs.replace(task.job(**(args or {})), **fields)
    await engine.enqueue([job])
    return job.id


async def stored(engine: Engine, id: str) -> Job:
    """The job as it stands."""
    (job,) = await engine.get([id])
    assert job is not None
    return job


def error_of(job: Job) -> str:
    """The text of a failed job's error."""
    assert job.error is not None
    return job.error


def lateness(job: Job) -> int:
    """Microseconds from a job's due time to its end."""
    assert job.ended_at is not None
    return job.ended_at - job.due


async def until(engine: Engine, done: Callable[[Job], bool], *ids: str) -> list[Job]:
    """The jobs, once all of them are `done`; looks whenever the engine says that something ended."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(changed.set)

    unwatch = engine.watch_ended(wake)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                jobs = [await stored(engine, id) for id in ids]
                if all(done(job) for job in jobs):
                    return jobs
                await changed.wait()
                changed.clear()
    finally:
        unwatch()


async def ended(engine: Engine, *ids: str) -> list[Job]:
    """The jobs, once all of them have ended."""
    return await until(engine, lambda job: job.state.ended, *ids)


class Watcher:
    """Waits for what a worker tells of itself."""

    def __init__(self, worker: Worker) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        worker.on_event.append(self._take)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def count(self, kind: str) -> int:
        """How many events of a kind there were."""
        return sum(event.kind == kind for event in self.events)

    async def seen(self, kind: str, times: int = 1) -> Event:
        """The latest event of a kind, once there were so many."""
        async with asyncio.timeout(PATIENCE):
            while self.count(kind) < times:
                self._changed.clear()
                await self._changed.wait()
        return [event for event in self.events if event.kind == kind][-1]


@asynccontextmanager
async def working(
    engine: Engine, *stand_ins: StandIn, **options: Any
) -> AsyncGenerator[tuple[Worker, Watcher]]:
    """A worker at work, and its watcher."""
    worker = Worker(engine, tasks(*stand_ins), **options)
    watcher = Watcher(worker)
    async with worker:
        yield worker, watcher


class FailingEngine(MemoryEngine):
    """A memory engine between which and the worker the line can be cut, slowed, or cut after the step was done."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False
        self.lose_answers = 0
        self.lose_beats = self.drop_beats = 0
        self.lapse = False
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.exchanges: list[tuple[Report, ...]] = []
        self.resumes: list[tuple[Known, ...]] = []

    async def exchange(
        self,
        worker: str,
        reports: Sequence[Report],
        want: int,
        queues: Sequence[str] | None = None,
        *,
        number: int | None = None,
        suspects: bool = True,
        threads: int | None = None,
        now: int | None = None,
    ) -> Exchanged:
        self._check()
        answer = await super().exchange(
            worker, reports, want, queues, number=number, suspects=suspects, threads=threads, now=now
        )
        self.exchanges.append(tuple(reports))
        if self.lose_answers and (answer.attempts or reports):
            self.lose_answers -= 1
            raise EngineUnavailable("the answer was lost")
        await self._pass_gate()
        return answer

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        self._check()
        await self._pass_gate()
        self.resumes.append(tuple(known))
        return await super().resume_worker(worker, number, known, now=now)

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        self._check()
        if self.lapse:
            self.lapse = False
            await self.retire(worker)
            raise LeaseLost("lapsed")
        await self._pass_gate()
        if self.drop_beats and done:
            self.drop_beats -= 1
            raise EngineUnavailable("the beat was lost")
        answer = await super().heartbeat(worker, done=done, now=now)
        if self.lose_beats and done:
            self.lose_beats -= 1
            raise EngineUnavailable("the answer was lost")
        return answer

    async def _pass_gate(self) -> None:
        """Silence, until the gate is opened or the caller's deadline passes."""
        try:
            async with asyncio.timeout(deadline.seconds(Settings())):
                await self.open_gate.wait()
        except TimeoutError:
            raise EngineUnavailable("no answer in time; it is not known whether it took effect") from None

    def _check(self) -> None:
        if self.cut:
            raise EngineUnavailable("the line is cut")
