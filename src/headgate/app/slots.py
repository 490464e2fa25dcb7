"""Slots for code that is no job: a web handler or a script stands in the same lines as the jobs (DESIGN, Outside).

There is no second path of admission: what asks for a slot enqueues a job without work, which a worker of this very
process claims once all of its limits admit it. The job runs until the code leaves its block. So a slot is held with
the same lease and fence as by any attempt, shows among holders and in explanations, and is taken back when the process
dies. A request of a process that died leaves its line, too: it expires, and is asked for again while the code waits.

The worker runs on the thread of the sync twins: code that blocks its own event loop keeps its lease nevertheless. A
worker claims from one queue, and is started by the first slot there. Once it runs, a coroutine enqueues its request on
its own loop, and is told from the worker's thread when it is granted: most slots cost one hop between threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

import msgspec

from headgate.app.client import Client
from headgate.app.options import LEAST_RETENTION
from headgate.app.raw import raw_job
from headgate.clock import SECOND, duration_us
from headgate.codec import decode
from headgate.engine.rules.turned_away import EXPIRED
from headgate.errors import CancelJob, ConfigError, HeadgateError, JobCancelled, SlotLost
from headgate.forks import renew_after_fork
from headgate.hooks.dependencies import Dependency
from headgate.ids import new_id
from headgate.job import Job, JobState, NewJob
from headgate.keys import check_text
from headgate.limits.declared import DeclaredLimit
from headgate.retry import Retry

if TYPE_CHECKING:
    from headgate.worker import Worker

log = logging.getLogger("headgate.app.slots")

QUEUE = "slots"
"""The queue in whose lines slots stand, unless they name another."""
PREFIX = "slot:"
"""What the names of keepers' tasks begin with."""
ONCE = Retry(attempts=1, losses=0)
"""A slot whose process died is not held again: the code that asked for it is gone."""
MOST_AT_ONCE = 10_000
STAND = 60 * SECOND
"""Until when a request must have been granted; one whose code still waits then is made anew, due when the first was."""
PROMPT = 0.02
"""Seconds in which a slot is given where there is room."""
GIVE_BACK = 5.0
"""Seconds that the end of a block waits for the store to have taken the slot back."""


class SlotOptions(TypedDict, total=False):
    """How a slot stands in line. `queue` puts it in the lines of that queue's jobs."""

    priority: int | None
    tenant: str | None
    metadata: Mapping[str, Any] | None
    share: str | None


class Holding:
    """One slot, from its request to its end; belongs to the keeper's loop. There `tell` says that it is granted."""

    def __init__(self, id: str, tell: Callable[[], object] | None = None) -> None:
        self.tell = tell
        self.id = id
        self.due: int | None = None
        """Since when it waits, by the store's clock; known when its request has expired once."""
        self.granted = asyncio.Event()
        self.released = asyncio.Event()
        self.lost = asyncio.Event()


class KeeperTask:
    """The task of a keeper's worker: a job runs as long as its slot is held. Has the shape of any other task."""

    is_async = True
    in_process = False
    retry = ONCE
    schedule = None
    learning = None
    dependencies: Mapping[str, Dependency] = {}

    def __init__(self, name: str, holdings: Mapping[str, Holding]) -> None:
        self.name = name
        self._holdings = holdings

    async def fn(self, id: str) -> None:
        """Hold the slot until it is released; cancelled where the lease was lost or an operator wants it back."""
        holding = self._holdings.get(id)
        if holding is None:
            raise CancelJob("the code that asked for this slot has gone")
        holding.granted.set()
        if holding.tell is not None:
            with suppress(RuntimeError):  # the loop of the code that asked is closed
                holding.tell()
        try:
            await holding.released.wait()
        except asyncio.CancelledError:
            holding.lost.set()
            raise

    def decode(self, args: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The id of the job."""
        return (decode(args)["slot"],), {}

    def encode_result(self, value: Any) -> str:
        """Nothing comes of a slot."""
        return "null"

    def job(self, *args: Any, **kwargs: Any) -> NewJob:
        """Slots are asked for by `app.slot()`."""
        raise ConfigError("slots are asked for by app.slot()")


class Keeper:
    """Holds the slots that this process takes in one queue, by a worker of its own."""

    def __init__(self, client: Client, queue: str) -> None:
        self.holdings: dict[str, Holding] = {}
        self.queue = queue
        self._client = client
        name = f"{PREFIX}{socket.gethostname()[:64]}-{os.getpid()}-{os.urandom(3).hex()}"
        self.task = KeeperTask(name, self.holdings)
        self._worker: Worker | None = None
        self._starting = asyncio.Lock()

    @property
    def running(self) -> bool:
        """Whether its worker has been started."""
        return self._worker is not None

    async def take(
        self, holding: Holding, job: NewJob, timeout: float | None, *, asked: bool = False
    ) -> None:
        """Enqueue the job, unless that was done, and wait until it runs. One that expires is made anew."""
        await self._start()
        try:
            async with asyncio.timeout(timeout):
                if not asked:
                    await self.ask(holding, job)
                while not await self._granted(holding):
                    job = msgspec.structs.replace(job, id=new_id(), at=holding.due)
                    await self.ask(holding, job)
        except BaseException:
            await asyncio.shield(self.withdraw(holding))
            raise

    async def ask(self, holding: Holding, job: NewJob) -> None:
        """Enqueue the job of a request; on any loop, once the worker runs."""
        self.holdings.pop(holding.id, None)
        self.holdings[job.id], holding.id = holding, job.id
        args = f'{{"slot":{msgspec.json.encode(job.id).decode()}}}'
        await self._client.enqueue([msgspec.structs.replace(job, args=args, start_within=STAND)])

    async def _granted(self, holding: Holding) -> bool:
        """Until the slot is held, or its job has ended without that: dropped, replaced, cancelled, or expired, which is
        no answer. Where there is room, the store is not asked how it ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PROMPT):
                return await holding.granted.wait()
        ended = asyncio.ensure_future(self._ended(holding.id))
        granted = asyncio.ensure_future(holding.granted.wait())
        try:
            await asyncio.wait([ended, granted], return_when=asyncio.FIRST_COMPLETED)
            if not granted.done():
                job = await ended
                if job is None or job.error != EXPIRED:
                    raise JobCancelled(f"the slot was not given: {_why(job)}")
                holding.due = job.due
            return granted.done()
        finally:
            for waiting in (ended, granted):
                waiting.cancel()
                with suppress(asyncio.CancelledError, HeadgateError):
                    await waiting

    async def _ended(self, id: str) -> Job | None:
        return await (await self._client.opened()).ended(id)

    async def withdraw(self, holding: Holding) -> None:
        """The caller has gone: its job leaves the line, or gives back what it was given meanwhile."""
        self.holdings.pop(holding.id, None)
        holding.released.set()
        with suppress(HeadgateError):
            await (await self._client.engine()).cancel([holding.id])

    async def give_back(self, holding: Holding) -> None:
        """End the job, and wait until the store has heard of it."""
        self.holdings.pop(holding.id, None)
        holding.released.set()
        with suppress(HeadgateError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK):
                await self._ended(holding.id)

    async def _start(self) -> None:
        async with self._starting:
            if self._worker is None:
                from headgate.worker import Worker

                worker = Worker(
                    await self._client.engine(),
                    {self.task.name: self.task},
                    queues=[self.queue],
                    concurrency=MOST_AT_ONCE,
                    grace=0,
                    name=self.task.name,
                    store=self._client.shown_url,
                )
                await worker.__aenter__()
                self._worker = worker

    async def close(self) -> None:
        """Give everything back. What the worker releases would stand in line again, for code that has gone."""
        worker, self._worker = self._worker, None
        for holding in self.holdings.values():
            holding.lost.set()
        if self.holdings:
            with suppress(HeadgateError):
                await (await self._client.engine()).cancel(list(self.holdings))
        if worker is not None:
            await worker.__aexit__(None, None, None)


class Keepers:
    """All keepers of an app, one per queue."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """No thread is there after a fork, and no worker."""
        self._keepers: dict[str, Keeper] = {}

    def of(self, queue: str) -> Keeper:
        """The keeper of a queue; called on the loop of the sync twins."""
        keeper = self._keepers.get(queue)
        if keeper is None:
            keeper = self._keepers[queue] = Keeper(self._client, queue)
        return keeper

    def running(self, queue: str) -> Keeper | None:
        """The keeper of a queue, if its worker was started; from any thread."""
        keeper = self._keepers.get(queue)
        return keeper if keeper is not None and keeper.running else None

    @property
    def any(self) -> bool:
        """Whether any slot was ever asked for."""
        return bool(self._keepers)

    async def close(self) -> None:
        """Give back all slots and end the workers."""
        keepers, self._keepers = self._keepers, {}
        await asyncio.gather(*(keeper.close() for keeper in keepers.values()))


class Slot:
    """A request for slots and tokens of some limits, held inside `with` or `async with`."""

    def __init__(
        self,
        client: Client,
        keepers: Keepers,
        limits: Iterable[DeclaredLimit],
        timeout: float | timedelta | None,
        queue: str | None,
        options: SlotOptions,
    ) -> None:
        self.limits = tuple(_checked(limit) for limit in limits)
        if not self.limits:
            raise ConfigError(
                "app.slot() needs at least one limit: app.slot(ConcurrencyLimit(8, scope='crm'))"
            )
        self._timeout = None if timeout is None else duration_us(timeout, "timeout=") / SECOND
        self._queue = QUEUE if queue is None else check_text(queue, "queue")
        self._client = client
        self._keepers = keepers
        self._options = options
        self._holding: Holding | None = None
        self._asked: Holding | None = None

    @property
    def id(self) -> str:
        """The id of the job that holds the slot: for explanations, and for operators."""
        return self._held.id

    @property
    def lost(self) -> bool:
        """Whether the slot is this code's no longer: its lease has lapsed, or an operator has cancelled it."""
        return self._held.lost.is_set()

    async def wait_lost(self) -> None:
        """Return when the slot is lost; never, while it is held."""
        await self._there(self._held.lost.wait())

    def raise_if_lost(self) -> None:
        """Raise SlotLost where `lost` is true."""
        if self.lost:
            raise SlotLost(f"slot {self.id!r} was taken back while this code held it")

    @property
    def _held(self) -> Holding:
        if self._holding is None:
            raise HeadgateError("this slot is not held: use it inside `async with app.slot(…) as slot:`")
        return self._holding

    async def _take(self) -> Holding:
        """On the keepers' loop."""
        keeper = self._keepers.of(self._queue)
        job = self._request(keeper)
        holding = self._asked = Holding(job.id)
        with self._in_time():
            await keeper.take(holding, job, self._timeout)
        return holding

    async def _take_from(self, loop: asyncio.AbstractEventLoop) -> Holding:
        """On the caller's loop: the keepers' is needed only where the slot is not granted at once."""
        keeper = self._keepers.running(self._queue)
        if keeper is None:
            return await self._there(self._take())
        begun, told, job = loop.time(), asyncio.Event(), self._request(keeper)
        holding = self._asked = Holding(job.id, lambda: loop.call_soon_threadsafe(told.set))
        with self._in_time():
            async with asyncio.timeout(self._timeout):
                await keeper.ask(holding, job)
            with suppress(TimeoutError):
                async with asyncio.timeout(PROMPT if self._timeout is None else min(PROMPT, self._timeout)):
                    await told.wait()
            if not told.is_set():
                rest = None if self._timeout is None else max(0.0, begun + self._timeout - loop.time())
                await self._there(keeper.take(holding, job, rest, asked=True))
        return holding

    def _request(self, keeper: Keeper) -> NewJob:
        job = raw_job(self._client, keeper.task.name, {}, self._queue, self.limits, {**self._options})  # type: ignore[typeddict-item]
        return msgspec.structs.replace(job, retry=ONCE.policy, retention=LEAST_RETENTION)

    @contextmanager
    def _in_time(self) -> Generator[None]:
        try:
            yield
        except TimeoutError:
            if self._timeout is None:  # not ours
                raise
            raise TimeoutError(f"no slot was free within {self._timeout:g} seconds") from None

    async def _forget(self) -> None:
        """The caller has gone at the very moment at which the slot was given: nothing else would give it back."""
        keeper = self._keepers.of(self._queue)
        if self._asked is not None and self._asked.id in keeper.holdings:
            await keeper.withdraw(self._asked)

    async def _there(self, work: Awaitable[Any]) -> Any:
        """Do it on the keepers' loop. A caller that is cancelled cancels what it waits for."""

        async def done() -> Any:
            return await work

        return await asyncio.wrap_future(self._client.sync_loop.hand_over(done()))

    async def __aenter__(self) -> Self:
        self._refuse_twice()
        try:
            self._holding = await self._take_from(asyncio.get_running_loop())
        except BaseException:
            self._client.sync_loop.hand_over(self._forget())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(self._there(self._give_back()))

    def __enter__(self) -> Self:
        self._refuse_twice()
        try:
            self._holding = self._client.sync_loop.run(self._take())
        except BaseException:
            self._client.sync_loop.hand_over(self._forget())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.sync_loop.run(self._give_back())

    async def _give_back(self) -> None:
        holding = self._held
        self._holding = None
        await self._keepers.of(self._queue).give_back(holding)

    def _refuse_twice(self) -> None:
        if self._holding is not None:
            raise HeadgateError("this slot is held already; ask for another one with app.slot(…)")


def _checked(limit: Any) -> DeclaredLimit:
    if not isinstance(limit, DeclaredLimit):
        raise ConfigError(f"app.slot(): {limit!r} is not a limit")
    if limit.scope is None:
        raise ConfigError(
            f"app.slot(): {limit!r} needs scope=…, the name of the limit whose line the code stands in"
        )
    return limit


def _why(job: Job | None) -> str:
    if job is None:
        return "its job is gone"
    if job.state is JobState.CANCELLED:
        return job.error or "it was cancelled while it waited"
    return f"its job is {job.state}"
