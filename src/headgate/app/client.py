"""What an app shares with its tasks and handles: the engine, opened on first use, and what hangs on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from headgate.app.open_store import OpenStore
from headgate.app.sharing import Shares
from headgate.app.sync import SyncLoop
from headgate.codec import NO_LIMIT, decode
from headgate.engine.contract import Engine, Enqueued, EnqueuesWithin, NewArguments, Settings
from headgate.engine.open import check_url, make_engine, shown_url
from headgate.errors import ConfigError
from headgate.forks import renew_after_fork
from headgate.hooks.enqueued import tell_enqueued
from headgate.hooks.hooks import Hooks
from headgate.job import Job, NewJob
from headgate.limits.registered import RegisteredLimits
from headgate.own_types import NO_OWN
from headgate.sealing import Sealing

Clock = Callable[[], int]

_inherited: list[OpenStore] = []
"""Stores of a parent process. A forked child must not close what it shares with its parent, so it keeps them."""


class KnownTask(Protocol):
    """What can be asked of a task that this program declares."""

    def decode_result(self, text: str) -> Any: ...

    def changed(self, job: Job, args: str, given: Mapping[str, Any]) -> NewArguments:
        """The arguments of a stored job, changed by those that are given, and the keys that it needs then."""
        ...


class Client:
    """One app's way to its store, from any loop and thread."""

    def __init__(
        self, url: str | Callable[[], str], settings: Settings, payload_limit: int, clock: Clock | None = None
    ) -> None:
        self._url = url if callable(url) else check_url(url)
        self.settings = settings
        self.payload_limit = payload_limit
        self.clock = clock
        self.sync_loop = SyncLoop()
        self.limits = RegisteredLimits()
        self.shares = Shares()
        self.hooks = Hooks()
        self.types = NO_OWN
        self.tasks: dict[str, KnownTask] = {}
        self._opened: OpenStore | None = None
        self._kept: Engine | None = None
        self.on_trial = False
        """Whether a test put another store in the place of the app's own."""
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """New locks: in a forked child no thread is opening the store."""
        self._lock = threading.Lock()
        self._opening: Future[None] | None = None

    @property
    def url(self) -> str:
        """Where the store is; asked of the app's function, if it has one, at each opening."""
        return check_url(self._url()) if callable(self._url) else self._url

    @property
    def sealing(self) -> Sealing:
        """What stands between payloads and the store."""
        return self.hooks.enqueueing.sealing

    @property
    def json_limit(self) -> int:
        """Bytes of JSON of one payload. What is sealed is measured as it is stored, not before."""
        return NO_LIMIT if self.sealing.active else self.payload_limit

    @property
    def shown_url(self) -> str:
        """The URL without what may be a password."""
        return shown_url(self.url)

    async def opened(self) -> OpenStore:
        """The open engine. The first caller opens it; those that come meanwhile share what comes of it, also an error.
        A forked child opens its own."""
        while True:
            opened = self._opened
            if opened is not None and opened.own:
                return opened
            with self._lock:
                opening, mine = self._opening, Future[None]()
                if opening is None:
                    self._opening = mine
            if opening is None:
                return await self._open(mine)
            await asyncio.shield(asyncio.wrap_future(opening))  # a caller that gives up does so alone

    async def _open(self, opening: Future[None]) -> OpenStore:
        failure: Exception | None = None
        try:
            if self._opened is not None:
                _inherited.append(self._opened)
                self.limits.all_unsent()
                self.shares.all_unsent()
            self._opened = opened = OpenStore(await self._open_engine())
            return opened
        except Exception as error:
            failure = error
            raise
        finally:
            with self._lock:
                self._opening = None
            if failure is None:  # open, or given up by its caller: then the next one tries
                opening.set_result(None)
            else:
                opening.set_exception(failure)

    async def _open_engine(self) -> Engine:
        """An open engine that has heard of the limits; nothing of it is left open if that fails."""
        engine = self._kept or make_engine(self.url, self.settings, self.clock)
        try:
            await engine.open()
            await self.limits.send(engine)
            await self.shares.send(engine)
        except BaseException:
            with suppress(Exception):
                await engine.close()
            raise
        return engine

    async def engine(self) -> Engine:
        """The open engine, which has heard of every limit declared so far."""
        engine = (await self.opened()).engine
        if self.limits.unsent():
            await self.limits.send(engine)
        if self.shares.unsent:
            await self.shares.send(engine)
        return engine

    async def enqueue(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Enqueued]:
        """Store all of the jobs or none, in one step that also carries the limits they are the first to name."""
        engine = (await self.opened()).engine
        if self.shares.unsent:
            await self.shares.send(engine)
        if connection is not None:
            stored = await self._enqueue_within(engine, jobs, connection)
        elif not self.limits.unsent():
            stored = await engine.enqueue(jobs)
        else:
            with self.limits.carried() as limits:
                stored = await engine.enqueue(jobs, limits=limits)
        if self.hooks.listeners:
            within = connection is not None
            await tell_enqueued(self.hooks.listeners, jobs, stored, within_transaction=within)
        return stored

    async def _enqueue_within(
        self, engine: Engine, jobs: Sequence[NewJob], connection: Any
    ) -> list[Enqueued]:
        """Inside the caller's transaction. Limits are declared beside it: other callers must not wait for its end."""
        if not isinstance(engine, EnqueuesWithin):
            raise ConfigError(
                f"{self.shown_url} cannot enqueue inside a caller's transaction; leave connection= out"
            )
        self.refuse_another_loop(engine, connection)
        await self.engine()
        return await engine.enqueue_within(connection, jobs)

    def refuse_another_loop(self, engine: EnqueuesWithin, connection: Any) -> None:
        """The sync twins work on a loop of their own, where a connection of the caller's loop cannot be awaited."""
        if engine.is_awaited(connection) and self.sync_loop.is_mine():
            raise ConfigError(
                f"enqueue_sync() on {type(connection).__module__}.{type(connection).__qualname__}, which belongs to "
                "the event loop that opened it; write `await …enqueue(…)`, or use a connection that is not async"
            )

    def decode_result(self, job: Job) -> Any:
        """A result as its task declares it; as plain JSON values if the task is not known here."""
        task, text = self.tasks.get(job.task), self._opened_result(job)
        return decode(text) if task is None else task.decode_result(text)

    def _opened_result(self, job: Job) -> str:
        if job.result is None:
            return "null"
        return self.sealing.open("result", job.result, job.task, job.id, job.tenant)

    def decode_progress(self, job: Job) -> Any:
        """What a job last reported; None if nothing."""
        if job.progress is None:
            return None
        return decode(self.sealing.open("progress", job.progress, job.task, job.id, job.tenant))

    def redirect(self, url: str, clock: Clock | None, *, keep: bool = False) -> Callable[[], None]:
        """Use another store from the next opening on; returns the function that undoes it.

        With `keep` a store in memory outlives being closed: the next opening finds it again."""
        before = self._url, self.clock, self._kept, self.on_trial
        self._url, self.clock, self.on_trial = check_url(url), clock, keep
        self._kept = make_engine(url, self.settings, clock) if keep and url == "memory://" else None

        def restore() -> None:
            self._url, self.clock, self._kept, self.on_trial = before

        return restore

    async def close(self) -> None:
        """Let go of the store; the next use opens it again and declares everything anew."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened.own:
            await opened.engine.close()
        self.limits.all_unsent()
        self.shares.all_unsent()
