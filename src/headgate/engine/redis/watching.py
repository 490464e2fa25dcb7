"""Waking sleepers: scripts publish what became ready and what ended, and every event loop with sleepers listens.

It listens to what ended only once a caller waits for results: a busy worker ends jobs thousands of times a second. A
message can be missed only while no connection listens; so a listener that has (re)connected wakes every sleeper once.
Sleepers ask the store what there is; a wake too many costs them one look.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

import hiredis
import msgspec

from headgate.engine.contract import Wake
from headgate.engine.redis.wire import Wire
from headgate.engine.sleepers import Sleepers

log = logging.getLogger("headgate.engine")

LISTEN_SECONDS = 5.0
"""How long a listener waits for a message before it checks that the connection still lives."""

Kind = Literal["work", "ended"]
_read_queues = msgspec.msgpack.Decoder(list[str]).decode


class Listened:
    """What a listener needs of the store: a fresh connection, the channels of a kind, what means that the connection
    was lost, which callback to tell so that the next one may go to another server, and the partition of a channel."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Wire]],
        names: Callable[[str], Sequence[str]],
        lost: tuple[type[Exception], ...],
        doubt: Callable[[], None],
        partition_of: Callable[[str], int | None],
    ) -> None:
        self.connect = connect
        self.partition_of = partition_of
        self.names = names
        self.lost = lost
        self.doubt = doubt


class Watchers:
    """The listeners of a process, one for each event loop with sleepers."""

    def __init__(self, store: Listened) -> None:
        self._store = store
        self._listeners: dict[asyncio.AbstractEventLoop, Listener] = {}

    def on_work(
        self, wake: Wake, queues: Sequence[str] | None, partition: int | None = None
    ) -> Callable[[], None]:
        """Wake for jobs of these queues, in one partition or in all of them."""
        listener = self._listener()
        end = listener.sleepers.on_work(wake, queues, partition)
        listener.listen_to("work")
        return end

    def on_ended(self, wake: Wake) -> Callable[[], None]:
        """Wake for ended jobs."""
        listener = self._listener()
        end = listener.sleepers.on_ended(wake)
        listener.listen_to("ended")
        return end

    def came(self, queues: Callable[[], Iterable[str]], told: set[str], partition: int) -> None:
        """This process has just made jobs ready: its sleepers need not wait until the server tells them. Those
        in this event loop know already of the queues that they were `told` of."""
        listeners = [each for each in list(self._listeners.values()) if each.sleepers.for_work]
        if listeners:
            ready, here = set(queues()), asyncio.get_running_loop()
            for listener in listeners:
                listener.sleepers.work(ready - told if listener.loop is here else ready, partition)

    def coming(self, queues: Callable[[], Iterable[str]], partition: int) -> set[str]:
        """Jobs will most likely be ready as soon as what is now being sent has been done. A sleeper in this event loop
        may look at once: it asks over the same connection, so that it is answered behind that. Returns the queues."""
        listener = self._listeners.get(asyncio.get_running_loop())
        if listener is None or not listener.sleepers.for_work:
            return set()
        ready = set(queues())
        listener.sleepers.work(ready, partition)
        return ready

    async def stop(self) -> None:
        """End all listening, also in loops that are not this one."""
        here = asyncio.get_running_loop()
        for loop, listener in list(self._listeners.items()):
            if loop is here:
                await listener.end()
            else:
                with contextlib.suppress(RuntimeError):  # that loop has ended
                    loop.call_soon_threadsafe(listener.cancel)
        self._listeners.clear()

    def _listener(self) -> Listener:
        loop = asyncio.get_running_loop()
        listener = self._listeners.get(loop)
        if listener is None:
            listener = self._listeners[loop] = Listener(loop, self._store, self._gone)
        return listener

    def _gone(self, listener: Listener) -> None:
        if self._listeners.get(listener.loop) is listener:
            del self._listeners[listener.loop]


class Listener:
    """The sleepers of one event loop, and the connection on which they are called. Wakes come from any thread, all
    else from the loop's own."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Listened,
        gone: Callable[[Listener], None],
    ) -> None:
        self.sleepers = Sleepers()
        self.loop = loop
        self._store = store
        self._gone = gone
        self._kinds: list[Kind] = []
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._heard_any = False
        self._deaf = False

    def listen_to(self, kind: Kind) -> None:
        """Hear messages of this kind from now on."""
        if kind not in self._kinds:
            self._kinds.append(kind)
            if self._wire is not None:
                self._wire.say("SUBSCRIBE", *self._store.names(kind))
        if self._task is None or self._task.done():
            self._task = self.loop.create_task(self._listen(), name="headgate-redis-watch")

    def cancel(self) -> None:
        """End the listening."""
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """The same, and wait for it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _listen(self) -> None:
        """Until the engine is closed, or the loop ends and cancels it."""
        pause = 0.05
        try:
            while True:
                try:
                    await self._hear(await self._store.connect())
                    pause = LISTEN_SECONDS if self._deaf else 0.05
                except self._store.lost as error:
                    self._store.doubt()
                    log.debug("the listener lost its connection, trying again: %s", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, 2.0)
        finally:
            self._gone(self)

    async def _hear(self, wire: Wire) -> None:
        """Until the connection ends, or does not answer any more."""
        self._wire, pinged = wire, False
        wire.hear(self._heard)
        wire.say("SUBSCRIBE", *(name for kind in self._kinds for name in self._store.names(kind)))
        try:
            while not wire.closed:
                self._heard_any = False
                await asyncio.wait([wire.lost], timeout=LISTEN_SECONDS)
                if self._heard_any:
                    pinged = False
                elif pinged:
                    raise ConnectionError("no answer to a ping")
                else:
                    pinged = True
                    wire.say("PING")
        finally:
            self._wire = None
            wire.close()

    def _heard(self, message: Any) -> None:
        self._heard_any = True
        if isinstance(message, hiredis.ReplyError):
            if not self._deaf:
                self._deaf = True
                log.warning(
                    "the server does not let this user listen (%s); jobs and results of other processes are found by "
                    "looking, every second or so",
                    message,
                )
            if self._wire is not None:
                self._wire.close()
            return
        match message:
            case [b"subscribe", *_]:
                self._deaf = False
                self.sleepers.work()
                self.sleepers.ended()
            case [b"message", channel, _] if channel.endswith(b":ended"):
                self.sleepers.ended()
            case [b"message", channel, queues]:
                partition = self._store.partition_of(channel.decode())
                self.sleepers.work(set(_read_queues(queues)) if queues else None, partition)
            case _:
                pass
