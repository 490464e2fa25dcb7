"""The worker as callers see it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Self

from headgate import __version__
from headgate.engine.contract import Engine
from headgate.errors import HeadgateError
from headgate.hooks.hooks import Hooks
from headgate.limits import FloatingRule
from headgate.worker.events import Event, Events, Listener
from headgate.worker.health import WorkerHealth
from headgate.worker.options import CONCURRENCY, GRACE, LEASE, options
from headgate.worker.pool import POOL_PROCESS
from headgate.worker.run.worker_run import WorkerRun
from headgate.worker.runnable import Runnable

log = logging.getLogger("headgate.worker")


class Worker:
    """Runs jobs of `tasks` from an open engine.

    `await worker.run()` works until `stop()` is called; `async with worker:` works beside whatever else the event
    loop does. `queues` is None (all), a list (strictly in this order) or weights. `concurrency` jobs run at once, of
    which synchronous ones need one of `threads` threads each. `lease` and `grace` are seconds. `hooks` are those of an
    app, which passes them itself, and `store` what it calls its store in logs.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Mapping[str, Runnable],
        *,
        floating: Sequence[FloatingRule] = (),
        queues: Iterable[str] | Mapping[str, float] | None = None,
        concurrency: int = CONCURRENCY,
        threads: int | None = None,
        lease: float | timedelta = LEASE,
        grace: float | timedelta = GRACE,
        name: str | None = None,
        pool_processes: int | None = None,
        max_jobs: int | None = None,
        max_memory: int | None = None,
        hooks: Hooks | None = None,
        store: str = "",
    ) -> None:
        self.options = options(
            queues,
            concurrency,
            threads,
            lease,
            grace,
            name,
            pool_processes,
            max_jobs,
            max_memory,
            internal=bool(floating),
        )
        self._engine = engine
        self._tasks = tasks
        self._floating = floating
        self._store = store or type(engine).__name__
        self._hooks = Hooks() if hooks is None else hooks
        self._events = Events(self._hooks.worker_listeners)
        self._alone = False
        self._worker_run: WorkerRun | None = None
        self._work: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signalled = False

    @property
    def on_event(self) -> list[Listener]:
        """Called with each `Event`, on the event loop: for tests and metrics."""
        return self._events.listeners

    @property
    def id(self) -> str:
        """The id under which it is registered now; empty when it is not. A split store has one per part: `ids`."""
        return next(iter(self._worker_run.ids), "") if self._worker_run else ""

    @property
    def ids(self) -> list[str]:
        """The ids under which it is registered, one per part of the store."""
        return self._worker_run.ids if self._worker_run else []

    @property
    def running(self) -> list[str]:
        """The ids of the jobs that it runs."""
        return [run.attempt.job for run in self._worker_run.running] if self._worker_run else []

    @property
    def overrun(self) -> list[str]:
        """Those of them that are past their timeout: threads that cannot be stopped and keep their slots."""
        runs = self._worker_run.running if self._worker_run else []
        return [run.attempt.job for run in runs if run.stop_reason == "timeout"]

    @property
    def health(self) -> WorkerHealth | None:
        """How it stands, also from another thread; None when it does not work."""
        return self._worker_run.health if self._worker_run else None

    async def run(self, *, signals: bool = False) -> None:
        """Work until stopped. With `signals`, the process is the worker's: SIGTERM and SIGINT stop it, the second one
        without waiting, and threads that do not end when they are asked to end with the process."""
        self._alone = signals
        self._signalled = False
        with self._signals() if signals else nullcontext():
            async with self:
                assert self._work is not None
                await asyncio.wait([self._work])

    def stop(self) -> None:
        """Claim no more, wait up to `grace` for what runs, give back the rest, retire. From any thread.

        A second call ends the grace. What cannot be stopped (a thread) is waited for in any case, since it holds its
        slots, unless the process ends with the worker.
        """
        if self._worker_run is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._worker_run.stop)

    async def __aenter__(self) -> Self:
        if self._work is not None:
            raise HeadgateError("this worker is running already; make another Worker to run a second one")
        if os.environ.get(POOL_PROCESS) == str(os.getpid()):
            raise HeadgateError(
                "a process of the pool loads the app and must not start a worker: put what starts yours under "
                "`if __name__ == '__main__':`"
            )
        self._loop = asyncio.get_running_loop()
        self._worker_run = WorkerRun(
            self._engine,
            self._tasks,
            self._floating,
            self.options,
            self._events,
            self._hooks,
            alone=self._alone,
        )
        work = self._work = self._loop.create_task(self._worker_run.work())
        if self._signalled:  # before there was anything to stop
            self.stop()
        try:
            await self._begun(work)
        except BaseException:
            self._work = None
            work.cancel()
            await asyncio.wait([work])
            raise
        work.add_done_callback(_report_crash)
        self._say_started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        work, self._work = self._work, None
        assert work is not None
        self.stop()
        if error is not None:  # the caller's block failed: no waiting
            self.stop()
        try:
            await work
        finally:
            log.info("worker %s stopped", self.id or self.options.name, extra={"worker": self.id})
            self._worker_run = None

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Stop on SIGTERM and SIGINT; put back what was there before."""

        def handle(signum: int, frame: FrameType | None) -> None:
            self._signalled = True
            self.stop()

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _say_started(self) -> None:
        named = self.options.queues.named
        queues = "all queues" if named is None else f"queues {', '.join(named)}"
        text = "worker %s started: headgate %s on %s, %s, concurrency %d"
        name, most = self.id or self.options.name, self.options.concurrency
        log.info(text, name, __version__, self._store, queues, most, extra={"worker": self.id})

    async def _begun(self, work: asyncio.Task[None]) -> None:
        """Wait for the first registration, for the news that the engine cannot be reached for now, or for the end."""
        begun = asyncio.Event()

        def listen(event: Event) -> None:
            if event.kind in ("registered", "unavailable"):
                begun.set()

        self.on_event.append(listen)
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait([waiting, work], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.on_event.remove(listen)
        if work.done():
            await work


def _report_crash(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        log.critical("the worker ended: %s", error, exc_info=error)
