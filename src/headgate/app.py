"""App: tasks, queues, floating limits, and the way to the store.

Nothing happens at import: the store is opened on first use, or by `async with app`. Every awaitable method has a
`*_sync` twin.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta, tzinfo
from itertools import islice
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from headgate.clock import duration_us
from headgate.codec import decode
from headgate.declared import as_floating
from headgate.engine.contract import Enqueued, ImportResult, Limit, Settings
from headgate.engine.open import make_engine
from headgate.errors import ConfigError
from headgate.handle import JobHandle
from headgate.hub import Clock, Hub
from headgate.importing import ImportRecord, import_jobs
from headgate.job import DEFAULT_PRIORITY, NewJob
from headgate.keys import check_name
from headgate.limits import AnyLimit, FloatingRule, check_max
from headgate.operate import Operations
from headgate.options import JobOptions, check_priority, check_queue, check_timeout
from headgate.periodic import Schedule, schedule
from headgate.portal import twin
from headgate.retry import LOST_ONLY, Retry
from headgate.task import AnyTask, Task

if TYPE_CHECKING:
    from headgate.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "sqlite:///headgate.db"
PAYLOAD_LIMIT = 1024 * 1024
BATCH = 1000

Duration = float | timedelta


class WorkerOptions(TypedDict, total=False):
    """What `run_worker()` and `worker()` take; see `headgate.worker.Worker`."""

    queues: Iterable[str] | Mapping[str, float] | None
    concurrency: int
    threads: int | None
    lease: Duration
    grace: Duration
    name: str | None


class TaskDecorator(Protocol):
    """What `@app.task(...)` gives."""

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...


class App(Operations):
    """A set of tasks and limits, and the store that their jobs live in.

    `retention` says how long ended jobs are kept: one duration for all, or `{"succeeded": …, "failed": …,
    "cancelled": …}` (default one day, and 14 days for the other two). `clock` replaces the store's, for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        patience: int = 8,
        reservation_ttl: Duration = 10,
        retention: Duration | Mapping[str, Duration] | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        busy_timeout: Duration = 30,
        clock: Clock | None = None,
    ) -> None:
        settings = Settings(
            patience=check_max(patience, "patience="),
            reservation_ttl=duration_us(reservation_ttl, "reservation_ttl="),
            busy_timeout=duration_us(busy_timeout, "busy_timeout="),
            **_retention(retention),
        )
        address = url if url is not None else os.environ.get("HEADGATE_URL") or DEFAULT_URL
        self._hub = Hub(address, settings, _check_payload_limit(payload_limit), clock)
        self._tasks: dict[str, AnyTask] = {}
        self._floating: dict[str, FloatingRule] = {}

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks by name."""
        return self._tasks

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._hub.url

    # ── declaring ────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def task(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        max_concurrent: int | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        retention: Duration | None = None,
        limits: Sequence[AnyLimit] = (),
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | tzinfo | None = None,
        catch_up: Literal["one", "none", "all"] = "one",
    ) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a task: `@app.task`, or `@app.task(queue="email", max_concurrent=20, …)`.

        Its name is the function's unless `name=` says otherwise. Without `retry=` an exception fails the job; attempts
        that are lost with their worker are run again. `cron=` or `every=` make it periodic.
        """

        def declare(fn: Callable[..., Any]) -> AnyTask:
            return self._add(fn, **options)

        return declare if fn is None else declare(fn)

    def _add(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        queue: str = "default",
        max_concurrent: int | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        retention: Duration | None = None,
        limits: Sequence[AnyLimit] = (),
        **periodic: Any,
    ) -> AnyTask:
        task = AnyTask(
            self._hub,
            fn,
            name=name,
            options=JobOptions(
                check_queue(queue),
                check_priority(priority),
                None if timeout is None else check_timeout(timeout),
                None if retention is None else duration_us(retention, "retention="),
            ),
            retry=_check_retry(retry),
            max_concurrent=max_concurrent,
            limits=limits,
            schedule=_schedule(periodic),
        )
        if task.name in self._tasks:
            raise ConfigError(f"this app has a task {task.name!r} already; give one of them another name=")
        self._hub.limits.declare(task.declared())
        self._tasks[task.name] = task
        return task

    def queue(self, name: str, *, max_concurrent: int) -> None:
        """Cap how many jobs of a queue run at once, over all workers."""
        most = check_max(max_concurrent, f"max_concurrent of queue {name!r}")
        self._hub.limits.declare(
            [Limit(f"queue:{check_name(check_queue(name), 'queue')}", "concurrency", most)]
        )

    def floating_limit(
        self, name: str, *, default: int, every: Duration = 30, metadata: Mapping[str, Any] | None = None
    ) -> Callable[[F], F]:
        """Register the function that computes a floating limit's number, every so many seconds while it is in use."""

        def register(function: F) -> F:
            if name in self._floating:
                raise ConfigError(f"this app has a floating limit {name!r} already")
            rule = FloatingRule(name, function, default, duration_us(every, "every="), metadata)
            self._hub.limits.declare([as_floating(rule)])
            self._floating[name] = rule
            return function

        return register

    # ── enqueueing ───────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(self, job: NewJob, *, connection: Any = None) -> JobHandle[Any]:
        """Enqueue a job made by `task.job(…)`; with `connection`, inside the caller's transaction where a store can."""
        return self._handle(job, (await self._hub.enqueue((job,), connection))[0])

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[JobHandle[Any]]:
        """Enqueue many jobs, one round trip per 1,000.

        Each batch of 1,000 is stored whole or not at all; so up to 1,000 jobs are all or none. If a later batch is
        refused, the earlier ones stay, and the error says how many.
        """
        source, handles = iter(jobs), list[JobHandle[Any]]()
        try:
            while batch := list(islice(source, BATCH)):
                stored = await self._hub.enqueue(batch)
                handles += [self._handle(job, one) for job, one in zip(batch, stored, strict=True)]
        except Exception as error:
            if handles:
                error.add_note(f"{len(handles)} jobs of earlier batches are stored")
            raise
        return handles

    def _handle(self, job: NewJob, enqueued: Enqueued) -> JobHandle[Any]:
        task = self._tasks.get(job.task)
        return JobHandle(
            self._hub, enqueued.id, task.decode_result if task else decode, created=enqueued.created
        )

    def handle(self, id: str) -> JobHandle[Any]:
        """A handle on a job, without looking whether it exists. Its result comes as plain JSON values."""
        return super().handle(id)

    async def import_jobs(self, records: Iterable[Mapping[str, Any] | ImportRecord]) -> list[ImportResult]:
        """Take over jobs with their history from another system; see `headgate.importing` for a record's fields.

        One result per record, in their order; a bad record is refused alone, and `refused` says why.
        """
        return await import_jobs(self._hub, self._tasks, list(records))

    # ── working ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def run_worker(self, *, signals: bool = False, **options: Unpack[WorkerOptions]) -> None:
        """Work until cancelled or, with `signals`, until SIGTERM or SIGINT."""
        await (await self._worker(options)).run(signals=signals)

    @asynccontextmanager
    async def worker(self, **options: Unpack[WorkerOptions]) -> AsyncGenerator[Worker]:
        """A worker beside whatever else this event loop does: `async with app.worker(concurrency=100): …`."""
        async with await self._worker(options) as worker:
            yield worker

    async def _worker(self, options: WorkerOptions) -> Worker:
        from headgate.worker import Worker

        return Worker(
            await self._hub.engine(), self._tasks, floating=tuple(self._floating.values()), **options
        )

    async def run_until_idle(
        self, *, queues: Iterable[str] | Mapping[str, float] | None = None, concurrency: int = 100
    ) -> int:
        """Run every job that can run without time passing; returns how many attempts that were."""
        from headgate.worker import run_until_idle

        rules = tuple(self._floating.values())
        engine = await self._hub.engine()
        return await run_until_idle(
            engine, self._tasks, floating=rules, queues=queues, concurrency=concurrency
        )

    # ── opening and closing ──────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Open the store and declare the limits now rather than on first use."""
        await self._hub.engine()

    async def close(self) -> None:
        """Let go of the store and of the thread behind the sync twins. The next use opens it again."""
        await self._hub.close()
        self.portal.close()

    def redirect(self, url: str, clock: Clock | None = None) -> Callable[[], None]:
        """Use another store from the next opening on; returns the function that undoes it. For tests."""
        return self._hub.redirect(url, clock)

    async def migrate(self) -> tuple[int, int]:
        """Bring the store to this version of Headgate; returns its versions before and after."""
        engine = make_engine(self._hub.url, self._hub.settings, self._hub.clock)
        try:
            return await engine.migrate()
        finally:
            await engine.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self.open_sync()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sync()

    enqueue_sync = twin(enqueue)
    enqueue_many_sync = twin(enqueue_many)
    import_jobs_sync = twin(import_jobs)
    run_worker_sync = twin(run_worker)
    run_until_idle_sync = twin(run_until_idle)
    open_sync = twin(open)
    migrate_sync = twin(migrate)

    def close_sync(self) -> None:
        """`close()` for code that cannot await. Not a derived twin, since it ends the thread that serves those."""
        self.portal.run(self._hub.close())
        self.portal.close()

    def __repr__(self) -> str:
        return f"<App {self._hub.shown_url} with {len(self._tasks)} tasks>"


def _retention(given: Duration | Mapping[str, Duration] | None) -> dict[str, int]:
    if given is None:
        return {}
    states = ("succeeded", "failed", "cancelled")
    kept = given if isinstance(given, Mapping) else dict.fromkeys(states, given)
    for state in kept:
        if state not in states:
            raise ConfigError(f"retention={given!r}: {state!r} is not one of {', '.join(states)}")
    return {
        f"keep_{state}": duration_us(value, f"retention of {state} jobs") for state, value in kept.items()
    }


def _check_payload_limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise ConfigError(f"payload_limit={value!r}: a number of bytes is needed")
    return value


def _check_retry(retry: Any) -> Retry:
    if retry is None:
        return LOST_ONLY
    if not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: a Retry is needed, as in Retry(attempts=5)")
    return retry


def _schedule(given: dict[str, Any]) -> Schedule | None:
    if given.get("cron") is None and given.get("every") is None:
        if given.get("timezone") is not None:
            raise ConfigError("timezone= belongs to cron=, which is missing")
        return None
    return schedule(**given)
