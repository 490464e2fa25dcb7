"""Waking those who sleep: at once within the process, by LISTEN across processes.

One thread per process holds one connection that listens, as long as there are watchers; it asks on that connection
every few seconds, and takes a new one where no answer comes. It tells the store that it listens (`listeners`), so
that no process is notified in vain: NOTIFY takes a lock of the whole cluster at commit. Wherever a wake could have
been missed (a new watcher, a lost connection, a pooler that swallows notifications), all watchers are woken once or
polled: spurious wakes are allowed, missing ones are not.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Sequence

from headgate.engine.contract import Wake
from headgate.engine.postgres.errors import translated
from headgate.engine.postgres.pools import Connection, Pools
from headgate.engine.postgres.scripts import channel, quoted
from headgate.engine.sleepers import Sleepers
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.postgres")

REFRESH = 20.0
LIVES = 60
"""Seconds, by the store's clock, until a listener that was not heard of is forgotten."""
POLL = 0.25
"""Seconds between wakes where notifications do not come through."""
POLLING = 60.0
"""Seconds until it is tried again whether they do."""
LONGEST_WAIT = 5.0
ECHO_AFTER = 1.0
"""Seconds until a listener tests whether notifications come through: when a process starts, others are in a hurry.
Until then it polls, too."""
ECHO_TIMEOUT = 2.0
PROBE = 5.0
"""Seconds between questions on the connection that listens: one that fell silent brings no notifications."""
ANSWER_TIMEOUT = 5.0
"""Seconds that an answer may take."""


class Watchers:
    """Who is to be woken in this process, and the thread that listens for them."""

    def __init__(self, pools: Pools, schema: str) -> None:
        self.id = secrets.token_hex(8)
        self._pools = pools
        self._schema = schema
        self._sleepers = Sleepers()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._stopping = False
        self._polling = False

    @property
    def sole(self) -> bool:
        """Whether all waking for work concerns one worker, which then needs none while it is full."""
        return len(self._sleepers.for_work) == 1

    def on_work(self, wake: Wake, queues: Sequence[str] | None) -> Callable[[], None]:
        """Wake for jobs."""
        return self._added(self._sleepers.on_work(wake, queues))

    def on_ended(self, wake: Wake) -> Callable[[], None]:
        """Wake for ended jobs."""
        return self._added(self._sleepers.on_ended(wake))

    def signal(self, *, work: bool, ended: bool) -> None:
        """Something happened that this process knows of."""
        if work:
            self._sleepers.work()
        if ended:
            self._sleepers.ended()

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopping = True
            thread = self._thread
            self._ring()
        if thread is not None and thread is not threading.current_thread():
            thread.join(10)

    def _added(self, end: Callable[[], None]) -> Callable[[], None]:
        """The thread listens for what was just registered, and looks again when that ends."""
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="headgate-postgres-listen", daemon=True
                )
                self._thread.start()
            self._ring()

        def end_and_look() -> None:
            with self._lock:
                end()
                self._ring()

        return end_and_look

    def _ring(self) -> None:
        """The thread looks again at who watches; called under the lock."""
        if self._loop is not None and self._changed is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        asyncio.run(self._listen_for_ever())

    async def _listen_for_ever(self) -> None:
        with self._lock:
            self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()
        wait, down = 0.1, False
        while not self._stopping:
            if not self._watched:
                await self._sleep(None)
                self._changed.clear()
                continue
            try:
                connection = await self._pools.connect()
                if down:
                    log.info("listening for notifications again")
                wait, down = 0.1, False
                await self._listen(connection)
            except HeadgateError as error:
                if not down:
                    log.warning("cannot listen for notifications, polling meanwhile: %s", error)
                down = True
            self.signal(work=True, ended=True)
            if not self._stopping and self._watched:
                await self._rest(wait)
                wait = min(wait * 2, LONGEST_WAIT)

    @property
    def _watched(self) -> bool:
        return bool(self._sleepers)

    async def _rest(self, seconds: float) -> None:
        """Wait before the next try; sleeping workers poll meanwhile."""
        assert self._changed is not None
        end = asyncio.get_running_loop().time() + seconds
        while not self._stopping and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, POLL))
            self.signal(work=True, ended=True)

    async def _listen(self, connection: Connection) -> None:
        """Listen on one connection until it is lost or there are no watchers."""
        assert self._changed is not None
        lost = asyncio.Event()
        heard = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_notify(_: object, __: int, ___: str, payload: str) -> None:
            if payload == "?" + self.id:
                heard.set()
            elif payload[1:] != self.id:
                self.signal(work=payload[:1] == "w", ended=payload[:1] == "e")

        def on_lost(_: object) -> None:
            loop.call_soon(lost.set)
            loop.call_soon(self._changed.set)  # pyright: ignore[reportOptionalMemberAccess]

        try:
            with translated(self._pools.where):
                connection.add_termination_listener(on_lost)
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    await connection.add_listener(channel(self._schema), on_notify)
                await self._register(connection)
                self.signal(work=True, ended=True)
                await self._rest(ECHO_AFTER)
                if not self._stopping and not await self._comes_through(heard):
                    await self._forget(connection)
                    await self._poll()
                    return
                registered = 0.0
                while not self._stopping and not lost.is_set() and self._watched:
                    if self._changed.is_set() or loop.time() >= registered + REFRESH:
                        self._changed.clear()
                        await self._register(connection)
                        registered = loop.time()
                    else:
                        async with asyncio.timeout(ANSWER_TIMEOUT):
                            await connection.execute("SELECT 1")
                    await self._sleep(PROBE)
                if not lost.is_set():
                    await self._forget(connection)
        finally:
            connection.terminate()
            await asyncio.sleep(0)

    async def _comes_through(self, heard: asyncio.Event) -> bool:
        """A notification sent through another connection must arrive here; behind a pooler it does not."""
        other = await self._pools.connect()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await other.execute("SELECT pg_notify($1, $2)", channel(self._schema), "?" + self.id)
        finally:
            other.terminate()
        try:
            await asyncio.wait_for(heard.wait(), ECHO_TIMEOUT)
        except TimeoutError:
            if not self._polling:
                log.warning(
                    "notifications do not come through (a pooler in transaction mode?); asking every %s s instead",
                    POLL,
                )
            self._polling = True
        else:
            if self._polling:
                log.info("notifications come through again")
            self._polling = False
        return not self._polling

    async def _poll(self) -> None:
        """Without notifications, for a minute; then they are tried again."""
        end = asyncio.get_running_loop().time() + POLLING
        while not self._stopping and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(POLL)
            self.signal(work=True, ended=True)

    async def _forget(self, connection: Connection) -> None:
        """No step needs to notify this process."""
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await connection.execute(f"DELETE FROM {quoted(self._schema)}.listeners WHERE id = $1", self.id)

    async def _sleep(self, seconds: float | None) -> None:
        assert self._changed is not None
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return

    async def _register(self, connection: Connection) -> None:
        """Tell the store what this process wants to hear; whether its worker is full stays as the worker said."""
        work = True if self._sleepers.for_work else None
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await connection.execute(
                f"""
                INSERT INTO {quoted(self._schema)}.listeners AS l (id, work, ended, until)
                VALUES ($1, $2, $3, {quoted(self._schema)}._now(NULL) + $4 * 1000000)
                ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, until = excluded.until,
                    work = CASE WHEN excluded.work IS NULL OR l.work IS NULL OR NOT $5 THEN excluded.work
                                ELSE l.work END
                """,
                self.id,
                work,
                bool(self._sleepers.for_ended),
                LIVES,
                self.sole,
            )
