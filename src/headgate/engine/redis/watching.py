"""Waking those who sleep: scripts publish what became ready and what ended, and one thread per process listens.

It listens to what ended only once somebody wants to know: a busy worker ends jobs thousands of times a second. A
message can be missed only while the thread is not connected; so whenever it has (re)connected, everybody is woken once.
Sleepers ask the store what there is; a wake too many costs them one look.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from headgate.engine.contract import Wake

log = logging.getLogger("headgate.engine")

LISTEN_SECONDS = 5.0
"""How long the thread waits for a message before it checks that the connection still lives."""

_read_queues = msgspec.msgpack.Decoder(list[str]).decode


class Watchers:
    """Who is to be woken, and the thread that listens. `connect` gives a fresh redis-py PubSub, `names` the channels of
    a kind; `doubt` is told when the server was lost, so that the next connection may go to another one."""

    def __init__(
        self,
        connect: Callable[[], Any],
        names: Callable[[str], Sequence[str]],
        lost: tuple[type[BaseException], ...],
        doubt: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._names = names
        self._lost = lost
        self._doubt = doubt
        self._on_work: dict[int, tuple[Wake, Sequence[str] | None]] = {}
        self._on_ended: dict[int, Wake] = {}
        self._kinds = ["work"]
        self._count = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pubsub: Any = None

    def on_work(self, wake: Wake, queues: Sequence[str] | None) -> Callable[[], None]:
        """Wake for jobs of these queues."""
        return self._add(self._on_work, (wake, queues))

    def on_ended(self, wake: Wake) -> Callable[[], None]:
        """Wake for ended jobs."""
        end = self._add(self._on_ended, wake)
        with self._lock:
            if "ended" not in self._kinds:
                self._kinds.append("ended")
                if self._pubsub is not None:
                    with contextlib.suppress(*self._lost):  # the listener will notice, and connect again
                        self._pubsub.subscribe(*self._names("ended"))
        return end

    def came(self, queues: Callable[[], Iterable[str]]) -> None:
        """This process has just made jobs ready: those who sleep here need not wait until the server tells them."""
        if self._on_work:
            self._ring_work(queues())

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        pubsub, thread = self._pubsub, self._thread
        if pubsub is not None:
            _hang_up(pubsub)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _add(self, table: dict[int, Any], entry: Any) -> Callable[[], None]:
        with self._lock:
            self._count += 1
            number = self._count
            table[number] = entry
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="headgate-redis-watch", daemon=True)
                self._thread.start()
        return lambda: table.pop(number, None)

    def _listen(self) -> None:
        pause = 0.05
        while not self._stop.is_set():
            try:
                pubsub = self._subscribe()
                pause = 0.05
                self._hear(pubsub)
            except self._lost as error:
                if not self._stop.is_set():
                    self._doubt()
                    log.debug("the listener lost its connection, trying again: %s", error)
            finally:
                if self._pubsub is not None:
                    _hang_up(self._pubsub)
                    self._pubsub.close()
                    self._pubsub = None
            self._stop.wait(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, 2.0)

    def _subscribe(self) -> Any:
        pubsub = self._connect()
        with self._lock:
            self._pubsub = pubsub
            pubsub.subscribe(*(name for kind in self._kinds for name in self._names(kind)))
        return pubsub

    def _hear(self, pubsub: Any) -> None:
        pinged = False
        while not self._stop.is_set():
            message = pubsub.get_message(timeout=LISTEN_SECONDS)
            if message is None:
                if pinged:
                    raise ConnectionError("no answer to a ping")
                with self._lock:
                    pubsub.ping()
                pinged = True
                continue
            pinged = False
            self._heard(message)

    def _heard(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "subscribe":
                self._ring_work(None)
                self._ring_ended()
            case "message" if message["channel"].endswith(b":ended"):
                self._ring_ended()
            case "message":
                self._ring_work(_read_queues(message["data"]) if message["data"] else None)
            case _:
                pass

    def _ring_work(self, queues: Iterable[str] | None) -> None:
        """None means: everybody."""
        ready = None if queues is None else set(queues)
        if ready is not None and not ready:
            return
        for wake, served in list(self._on_work.values()):
            if ready is None or served is None or ready.intersection(served):
                _ring(wake)

    def _ring_ended(self) -> None:
        for wake in list(self._on_ended.values()):
            _ring(wake)


def _hang_up(pubsub: Any) -> None:
    """Ends a read that is under way in another thread."""
    connection = pubsub.connection
    sock = getattr(connection, "_sock", None)
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(2)


def _ring(wake: Wake) -> None:
    """A sleeper that cannot be woken must not take the thread down that wakes the others."""
    try:
        wake()
    except Exception:
        log.exception("a sleeper could not be woken")
