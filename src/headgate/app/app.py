"""App: tasks, queues, floating limits, and the way to the store.

Nothing happens at import: the store is opened on first use, or by `async with app`. Every awaitable method has a
`*_sync` twin.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
)

from headgate.app.async_only import AsyncOnly
from headgate.app.blocks import enqueue
from headgate.app.client import Client, Clock
from headgate.app.declarations import Declarations
from headgate.app.defaults import TaskDefaults, check_defaults
from headgate.app.fair_shares import FairShares
from headgate.app.handle import JobHandle
from headgate.app.hooked import Hooked
from headgate.app.importing import ImportRecord, import_jobs
from headgate.app.known_names import unknown_queues
from headgate.app.on_commit import OnCommit
from headgate.app.operations import Operations
from headgate.app.options import LEAST_RETENTION
from headgate.app.overview import Overview
from headgate.app.raw import RawOptions, raw_job
from headgate.app.remote_work import RemoteWork
from headgate.app.schedules import Schedules
from headgate.app.slots import Keepers, Slot, SlotOptions
from headgate.app.sync import twin
from headgate.app.transaction import Transaction, of_this_thread
from headgate.clock import SECOND, duration_us
from headgate.engine.contract import Engine, ImportResult, Settings
from headgate.engine.open import make_engine
from headgate.errors import ConfigError
from headgate.hooks.lifespan import LifespanFunction, check_lifespan
from headgate.job import NewJob
from headgate.limits import DeclaredLimit, check_max
from headgate.own_types import OwnTypes, Pair
from headgate.sealing import Codec, ContextCodec, Sealing

if TYPE_CHECKING:
    from headgate.worker import Worker

log = logging.getLogger("headgate.app")

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "sqlite:///headgate.db"
PAYLOAD_LIMIT = 1024 * 1024
JOBS_PER_STEP = 1000
LEAST_TIMEOUT = SECOND // 10

Duration = float | timedelta


class WorkerOptions(TypedDict, total=False):
    """What `run_worker()` and `worker()` take; see `headgate.worker.Worker`."""

    queues: Iterable[str] | Mapping[str, float] | None
    concurrency: int
    threads: int | None
    lease: Duration
    grace: Duration
    name: str | None
    pool_processes: int | None
    max_jobs: int | None
    max_memory: int | None


class App(Declarations, Hooked, Operations, FairShares, Overview, Schedules):
    """A set of tasks and limits, and the store that their jobs live in.

    `url` may be a function that returns it, which is called when the store is opened, and not before.
    `retention` says how long ended jobs are kept: one duration for all, or `{"succeeded": …, "failed": …,
    "cancelled": …}` (default one day, and 14 days for the other two). `timeout` is how long the store may take to
    answer one call before it raises EngineUnavailable. `lifespan` is a context manager function, called with the app,
    that each worker enters before its first claim and leaves after its last attempt. `clock` replaces the store's, for
    tests. `defaults` holds for tasks that say nothing else. `codec`, an object with `encode(bytes)` and
    `decode(bytes)`, encrypts or compresses arguments, results and progress before they are stored. `types` says how
    classes of one's own travel: `{Money: (encode, decode)}`, to plain JSON values and back.
    """

    def __init__(
        self,
        url: str | Callable[[], str] | None = None,
        *,
        patience: int = 8,
        reservation_ttl: Duration = 10,
        retention: Duration | Mapping[str, Duration] | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        busy_timeout: Duration = 30,
        timeout: Duration = 30,
        lifespan: LifespanFunction | None = None,
        clock: Clock | None = None,
        defaults: TaskDefaults | None = None,
        codec: Codec | ContextCodec | None = None,
        types: Mapping[type, Pair] | None = None,
    ) -> None:
        settings = Settings(
            patience=check_max(patience, "patience="),
            reservation_ttl=duration_us(reservation_ttl, "reservation_ttl="),
            busy_timeout=duration_us(busy_timeout, "busy_timeout="),
            timeout=_check_timeout(timeout),
            **_retention(retention),
        )
        address = url if url is not None else os.environ.get("HEADGATE_URL") or DEFAULT_URL
        client = Client(address, settings, _check_payload_limit(payload_limit), clock)
        client.types = OwnTypes(types)
        self._remote: RemoteWork | None = None
        client.hooks.enqueueing.sealing = Sealing(codec, client.payload_limit)
        client.hooks.app, client.hooks.lifespan = self, check_lifespan(lifespan)
        self._keepers = Keepers(client)
        super().__init__(client, check_defaults(defaults, "App(defaults=)"))

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._client.url

    @property
    def settings(self) -> Settings:
        """What the store is opened with."""
        return self._client.settings

    # ── enqueueing ───────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(self, job: NewJob[R], *, connection: Any = None) -> JobHandle[R]:
        """Enqueue a job made by `task.job(…)`; with `connection`, inside the caller's transaction where a store can."""
        _check_job(job, "what enqueue() was given")
        return (await enqueue(self._client, (job,), connection))[0]

    async def enqueue_many(self, jobs: Iterable[NewJob[R]], *, connection: Any = None) -> list[JobHandle[R]]:
        """Enqueue many jobs, one round trip per 1,000.

        Each batch of 1,000 is stored whole or not at all; so up to 1,000 jobs are all or none. If a later batch is
        refused, the earlier ones stay, and the error says how many. With `connection` as `enqueue()`.
        """
        source, handles = _each(jobs), list[JobHandle[R]]()
        try:
            while batch := list(islice(source, JOBS_PER_STEP)):
                for place, job in enumerate(batch, len(handles)):
                    _check_job(job, f"item {place} of enqueue_many()")
                handles += await enqueue(self._client, batch, connection)
        except Exception as error:
            if handles:
                error.add_note(f"{len(handles)} jobs of earlier batches are stored")
            raise
        return handles

    def transaction(self, connection: Any) -> Transaction:
        """Let every enqueue inside `with` or `async with` join the transaction that is open on a PostgreSQL connection.

        The transaction remains the caller's: the jobs are there with its commit, and gone with its rollback. None
        instead of a connection: what is enqueued inside joins no transaction, whatever block is around.
        """
        return Transaction(self._client, connection)

    def on_commit(self, register: Callable[[Callable[[], Any]], Any] | None = None) -> OnCommit:
        """Keep back what is enqueued inside `with` or `async with`, and store it when the block has ended well.

        For stores that cannot take part in a transaction: the block goes around it. If this process dies between the
        commit and the end of the block, the jobs are lost. With `register`, a function such as Django's
        `connection.on_commit`, each enqueue hands it a function that stores the job.
        """
        return OnCommit(self._client, register)

    def raw_job(
        self,
        task: str,
        args: Mapping[str, Any] | None = None,
        *,
        queue: str = "default",
        limits: Iterable[Any] = (),
        **options: Unpack[RawOptions],
    ) -> NewJob:
        """A job of a task that this program does not know, for `enqueue()` and `enqueue_many()`.

        Nothing checks its arguments, and it has only the limits that are given here, as code declares them or as
        `ImportLimit`, besides the caps of its task and queue. `options` are those of `Task.options`.
        """
        return raw_job(self._client, task, args or {}, queue, limits, options)

    @property
    def remote_work(self) -> RemoteWork:
        """The worker's side of the store, for workers that are no Python program."""
        if self._remote is None:
            from headgate.worker.run.tally import Tally

            self._remote = RemoteWork(self._client, Tally())
        return self._remote

    def slot(
        self,
        *limits: DeclaredLimit,
        timeout: Duration | None = None,
        queue: str | None = None,
        **options: Unpack[SlotOptions],
    ) -> Slot:
        """Slots and tokens for code that is no job: `async with app.slot(ConcurrencyLimit(8, scope="crm")) as slot:`,
        or `with` for code that cannot await.

        The code stands in the same lines as jobs, with `priority`, `tenant` and `share` as they, in those of `queue` if
        one is given. TimeoutError after `timeout` seconds without a slot; JobCancelled where a limit turns it away.
        `slot.lost` says when the slot is its own no longer.
        """
        return Slot(self._client, self._keepers, limits, timeout, queue, options)

    async def import_jobs(self, records: Iterable[Mapping[str, Any] | ImportRecord]) -> list[ImportResult]:
        """Take over jobs with their history from another system; see `headgate.app.importing` for a record's fields.

        One result per record, in their order; a bad record is refused alone, and `refused` says why.
        """
        return await import_jobs(self._client, self._tasks, list(records))

    # ── working ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def run_worker(
        self,
        *,
        signals: bool = False,
        watch: Callable[[Worker], None] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Work until cancelled or, with `signals`, until SIGTERM or SIGINT. `watch` is called with the worker before it
        begins."""
        with self.sync_loop.worker_loops.here():
            worker = await self._worker(options)
            if watch is not None:
                watch(worker)
            await worker.run(signals=signals)

    def worker(self, **options: Unpack[WorkerOptions]) -> AsyncOnly[Worker]:
        """A worker beside whatever else this event loop does: `async with app.worker(concurrency=100): …`."""
        return AsyncOnly(
            self._embedded(options),
            "a worker needs an event loop: write `async with app.worker()`, or app.run_worker_sync() in a thread",
        )

    @asynccontextmanager
    async def _embedded(self, options: WorkerOptions) -> AsyncGenerator[Worker]:
        for name in ("max_jobs", "max_memory"):
            if options.get(name) is not None:
                raise ConfigError(
                    f"app.worker({name}={options.get(name)!r}): it ends the worker, for another process to take its "
                    "place; that is for run_worker(), which returns then, and for `headgate worker`"
                )
        with self.sync_loop.worker_loops.here():
            async with await self._worker(options) as worker:
                yield worker

    async def _worker(self, options: WorkerOptions) -> Worker:
        from headgate.worker import Worker

        engine = await self._client.engine()
        worker = Worker(
            engine,
            self._tasks,
            floating=tuple(self._floating.values()),
            hooks=self._client.hooks,
            store=self._client.shown_url,
            **options,
        )
        for sentence in await unknown_queues(engine, options.get("queues"), self.queue_names):
            log.warning("%s", sentence)
        return worker

    async def run_until_idle(
        self,
        *,
        queues: Iterable[str] | Mapping[str, float] | None = None,
        concurrency: int = 100,
        raise_errors: bool = False,
    ) -> int:
        """Run every job that can run without time passing; returns how many attempts that were.

        With `raise_errors` what attempts raised is raised at the end as well: one exception as it was, several as a
        group. The jobs end as they would without it.
        """
        from headgate.app.attempt_errors import ErrorsSeen
        from headgate.worker import run_until_idle

        rules = tuple(self._floating.values())
        engine = await self._client.engine()
        seen = ErrorsSeen()
        started = await run_until_idle(
            engine,
            self._tasks,
            floating=rules,
            queues=queues,
            concurrency=concurrency,
            hooks=seen.watching(self._client.hooks) if raise_errors else self._client.hooks,
        )
        seen.raise_them()
        return started

    # ── opening and closing ──────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Open the store and declare the limits now rather than on first use."""
        await self._client.engine()

    async def close(self) -> None:
        """Let go of the store and of the thread behind the sync twins. The next use opens it again."""
        if self._keepers.any:
            await asyncio.wrap_future(self.sync_loop.hand_over(self._keepers.close()))
        await self._client.close()
        self.sync_loop.close()

    def redirect(self, url: str, clock: Clock | None = None, *, keep: bool = False) -> Callable[[], None]:
        """Use another store from the next opening on; returns the function that undoes it. For tests.

        With `keep` a store in memory is the same one again when the app is closed and opened meanwhile."""
        return self._client.redirect(url, clock, keep=keep)

    def make_engine(self) -> Engine:
        """An engine on the app's store that is not open yet; the caller closes it. For what must not create a store."""
        return make_engine(self._client.url, self._client.settings, self._client.clock)

    async def migrate(self) -> tuple[int, int]:
        """Bring the store to this version of Headgate; returns its versions before and after."""
        engine = self.make_engine()
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

    def enqueue_sync(self, job: NewJob[R], *, connection: Any = None) -> JobHandle[R]:
        """`enqueue()` for code that cannot await. Not a derived twin: the connection is that of the caller's thread."""
        return self.sync_loop.run(self.enqueue(job, connection=of_this_thread(connection)))

    def enqueue_many_sync(self, jobs: Iterable[NewJob[R]], *, connection: Any = None) -> list[JobHandle[R]]:
        """`enqueue_many()` for code that cannot await; see `enqueue_sync`."""
        return self.sync_loop.run(self.enqueue_many(jobs, connection=of_this_thread(connection)))

    import_jobs_sync = twin(import_jobs)
    run_until_idle_sync = twin(run_until_idle)
    open_sync = twin(open)
    migrate_sync = twin(migrate)

    def run_worker_sync(
        self,
        *,
        signals: bool = False,
        watch: Callable[[Worker], None] | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """`run_worker()` for code that cannot await; in this thread, where signals arrive, if it has no loop."""
        work = self.run_worker(signals=signals, watch=watch, **options)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(work)
        else:
            self.sync_loop.run(work)

    def close_sync(self) -> None:
        """`close()` for code that cannot await. Not a derived twin, since it ends the thread that serves those."""
        if self._keepers.any:
            self.sync_loop.run(self._keepers.close())
        self.sync_loop.run(self._client.close())
        self.sync_loop.close()

    def __repr__(self) -> str:
        return f"<App {self._client.shown_url} with {len(self._tasks)} tasks>"


def _each(jobs: Iterable[NewJob[R]]) -> Iterator[NewJob[R]]:
    try:
        return iter(jobs)
    except TypeError:
        raise ConfigError(
            f"enqueue_many() takes several jobs, and was given {jobs!r:.80}; one job goes to enqueue()"
        ) from None


def _check_job(job: Any, what: str) -> None:
    if not isinstance(job, NewJob):
        raise ConfigError(f"{what} is {job!r}, not a job; make one with task.job(…)")


def _retention(given: Duration | Mapping[str, Duration] | None) -> dict[str, int]:
    if given is None:
        return {}
    states = ("succeeded", "failed", "cancelled")
    kept = given if isinstance(given, Mapping) else dict.fromkeys(states, given)
    for state in kept:
        if state not in states:
            raise ConfigError(f"retention={given!r}: {state!r} is not one of {', '.join(states)}")
    return {
        f"keep_{state}": max(duration_us(value, f"retention of {state} jobs"), LEAST_RETENTION)
        for state, value in kept.items()
    }


def _check_timeout(value: Duration) -> int:
    timeout = duration_us(value, "timeout=")
    if timeout < LEAST_TIMEOUT:
        raise ConfigError(
            f"timeout={value!r}: a store needs time to answer, at least {LEAST_TIMEOUT / SECOND:g} seconds"
        )
    return timeout


def _check_payload_limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise ConfigError(f"payload_limit={value!r}: a number of bytes is needed")
    return value
