"""A thread with a connection of its own that runs whole operations, one after another: the reader of a file."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from headgate.engine.sqlite.connection import Connection, StoreError, haste, translated
from headgate.engine.sqlite.garbled import tolerant
from headgate.engine.sqlite.operations import Deadlines, Glance, Operation, Raised, deliver, fail
from headgate.engine.sqlite.session import Session
from headgate.errors import EngineUnavailable, HeadgateError

T = TypeVar("T")
Chore = Callable[[Connection], None]
MOST_TOGETHER = 200


class ConnectionThread:
    """Runs operations in the order in which they were handed in, each batch without a pause."""

    def __init__(self, name: str, path: str, connect: Callable[[], Connection]) -> None:
        self.path = path
        self.connection: Connection
        self._session = Session(path, connect)
        self._lock = threading.Lock()
        self._stopped = False
        self._queue: SimpleQueue[Operation | Chore | None] = SimpleQueue()
        self._deadlines: dict[asyncio.AbstractEventLoop, Deadlines] = {}
        self._opened = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Open the connection on its thread; raises what went wrong there."""
        self._thread.start()
        self._opened.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Finish what was handed in, close the connection, end the thread."""
        with self._lock:
            self._stopped = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def post(self, chore: Chore) -> None:
        """Have `chore` run between two operations. No caller waits for it or hears of its errors."""
        self._queue.put(chore)

    async def run(
        self,
        work: Callable[[], T],
        seconds: float,
        glance: Glance | None = None,
        after: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` on this thread and wait for it, for so many seconds."""
        operation = Operation(work, glance, after, seconds)
        with self._lock:
            if self._stopped:
                raise EngineUnavailable(f"{self.path} was closed")
            self._queue.put(operation)
        deadlines = self._deadlines.get(operation.loop) or self._deadlines_of(operation.loop)
        deadlines.add(operation)
        try:
            return await operation.future
        finally:
            deadlines.remove(operation)

    def _deadlines_of(self, loop: asyncio.AbstractEventLoop) -> Deadlines:
        """Those of a new loop; loops that have been closed are forgotten."""
        for closed in [each for each in list(self._deadlines) if each.is_closed()]:
            self._deadlines.pop(closed, None)
        self._deadlines[loop] = Deadlines(loop, self._too_late)
        return self._deadlines[loop]

    def _too_late(self, operation: Operation) -> None:
        """The caller has waited long enough. What has not begun never will."""
        if not operation.future.done():
            known = "nothing was done" if operation.withdraw() else "it is not known whether it took effect"
            operation.future.set_exception(
                EngineUnavailable(
                    f"{self.path} gave no answer within {operation.seconds:.3g} seconds; {known}"
                )
            )

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            with translated(self.path), self._session:
                pass
        except BaseException as error:
            self._error = error
            return
        finally:
            self._opened.set()
        while (found := self._next()) is not None:
            batch, chore = found
            if batch:
                self._run_connected(batch)
                deliver(batch)
            if chore is not nothing:
                self._do(chore)
            self._look_around()
        self._session.close()

    def _look_around(self) -> None:
        """Called between batches."""

    def _pause(self) -> float | None:
        """Seconds until `_look_around` is to be called although nothing was handed in; None for never."""
        return None

    def _do(self, chore: Chore) -> None:
        haste.until = math.inf
        try:
            with self._session as connection:
                chore(connection)
        except (StoreError, HeadgateError):
            pass  # an operation that needs the file tells its own caller

    def _run_connected(self, batch: list[Operation]) -> None:
        haste.until = batch[0].until if len(batch) == 1 else max(operation.until for operation in batch)
        try:
            with translated(self.path), self._session as self.connection:
                self._run_batch(batch)
        except BaseException as error:
            fail(batch, error)

    def _next(self) -> tuple[list[Operation], Chore] | None:
        """The operations that are there, and what to do after them; none when it is time to look; None at the end."""
        batch: list[Operation] = []
        try:
            item = self._queue.get(timeout=self._pause())
            while isinstance(item, Operation):
                batch.append(item)
                item = self._queue.get_nowait() if len(batch) < MOST_TOGETHER else nothing
        except Empty:
            return batch, nothing
        if item is not None:
            return batch, item
        if not batch:
            return None
        self._queue.put(None)
        return batch, nothing

    def _run_batch(self, batch: list[Operation]) -> None:
        for operation in batch:
            haste.until = operation.until
            operation.result = self._run_alone(operation)

    def _run_alone(self, operation: Operation) -> Any:
        try:
            with translated(self.path):
                try:
                    return self._answer(operation)
                except UnicodeDecodeError:
                    with tolerant(self.connection):
                        return self._answer(operation)
        except BaseException as error:
            return Raised(error)

    def _answer(self, operation: Operation) -> Any:
        return operation.run()


def nothing(_: Connection) -> None:
    """A chore that only wakes the thread."""
