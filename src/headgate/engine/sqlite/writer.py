"""The thread that writes to a file.

Operations that arrive while one is under way are run together in the next transaction (natural group commit): each in
a savepoint, so that one that raises takes nothing with it. Nothing waits for a timer. Work on a few jobs that finds the
thread idle is done on its caller's thread, with the writer's connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headgate.engine.sqlite.connection import Connection, StoreError, haste, translated
from headgate.engine.sqlite.operations import Operation, Raised, fail
from headgate.engine.sqlite.thread import ConnectionThread, nothing

T = TypeVar("T")
INLINE_SECONDS = 0.002
"""Seconds that work on its caller's thread may take."""
CAUTION = 10
"""A slow disk must not hold up an event loop: after work that took longer, the writer's thread does what comes, for so
many times as long."""
SOON = 0.005
"""Seconds between two looks at what other processes did, at least."""
LOOKS = 3
"""Looks after a nudge: a commit is heard of when it is written to the log, which is just before it can be seen."""


class Lookout(Protocol):
    """Looks for what other processes did."""

    @property
    def rest(self) -> float | None:
        """Seconds between two looks unless it is nudged; None if there is no sleeper."""
        ...

    def stirred(self) -> bool:
        """Whether a look may find something, without a nudge; cheap, since it is asked all the time."""
        ...

    def look(self, connection: Connection) -> None:
        """Find out."""
        ...


class Writer(ConnectionThread):
    """`rolled_back` is told when what an operation did was undone. `lookout` looks for other processes' commits every
    few milliseconds."""

    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], Connection],
        *,
        rolled_back: Callable[[], None],
        lookout: Lookout,
    ) -> None:
        super().__init__(name, path, connect)
        self._rolled_back = rolled_back
        self._lookout = lookout
        self._looked = 0.0
        self._looks = 0
        self._hasty = False
        self._cautious_until = 0.0

    def nudge(self) -> None:
        """Look soon: a sleeper was registered, or another process may have done something."""
        self._looks = LOOKS
        self._queue.put(nothing)

    # ── on the caller's thread ───────────────────────────────────────────────────────────────────────────────────

    async def run_inline(self, work: Callable[[], T], seconds: float, after: Callable[[], None]) -> T:
        """Run work that takes less time than two hops between threads: here and now if the thread is idle, else as
        `run` does. Other callers get their turn in between; what they bring meanwhile is run together."""
        if self._hasty or time.monotonic() < self._cautious_until or not self._queue.empty():
            return await self.run(work, seconds, None, after)
        done = self._at_once(work)
        if done is None:
            return await self.run(work, seconds, None, after)
        after()
        self._hasty = True
        try:
            await asyncio.sleep(0)
        finally:
            self._hasty = False
        return done[0]

    def _at_once(self, work: Callable[[], T]) -> tuple[T] | None:
        """What `work` returned, unless that would have meant to wait."""
        begun = time.monotonic()
        try:
            connection = self._session.seize()
            return None if connection is None else self._run_here(connection, work)
        finally:
            self._session.let_off()
            if (taken := time.monotonic() - begun) > INLINE_SECONDS:
                self._cautious_until = begun + CAUTION * taken

    def _run_here(self, connection: Connection, work: Callable[[], T]) -> tuple[T] | None:
        self.connection = connection
        try:
            with translated(self.path):
                return (self._commit(work),) if self._begun_at_once() else None
        except UnicodeDecodeError:
            return None  # the writer's thread reads the garbled text
        except BaseException:
            self._roll_back()  # a signal may have come between the beginning and the work
            raise

    def _begun_at_once(self) -> bool:
        try:
            with haste:
                self.connection.execute("BEGIN IMMEDIATE")
        except StoreError:
            return False  # the writer's thread waits, or learns what is wrong
        return True

    # ── on the writer's thread ───────────────────────────────────────────────────────────────────────────────────

    def _look_around(self) -> None:
        pause = self._pause()
        if pause is None or pause > SOON / 10:
            return
        nudged = self._looks > 0
        self._looked, self._looks = time.monotonic(), max(0, self._looks - 1)
        if nudged or self._lookout.stirred():
            self._do(self._lookout.look)

    def _pause(self) -> float | None:
        """Seconds until it is time to look; None for never."""
        rest = self._lookout.rest
        if rest is None:
            return None
        return max(0.0, self._looked + (SOON if self._looks else rest) - time.monotonic())

    def _run_batch(self, batch: list[Operation]) -> None:
        if len(batch) > 1 and self._run_together(batch):
            return
        super()._run_batch(batch)

    def _answer(self, operation: Operation) -> Any:
        if operation.glance is not None and (seen := operation.glance()) is not None:
            return seen
        return self._transaction(operation)

    def _transaction(self, operation: Operation) -> Any:
        """The caller may have given up while this thread waited for another process's lock."""
        self.connection.execute("BEGIN IMMEDIATE")
        return self._commit(operation.run)

    def _commit(self, work: Callable[[], T]) -> T:
        try:
            result = work()
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return result

    def _run_together(self, batch: list[Operation]) -> bool:
        """One transaction for all. When it cannot begin, none can; when it breaks, the caller runs each alone."""
        try:
            with translated(self.path):
                self.connection.execute("BEGIN IMMEDIATE")
        except Exception as error:
            fail(batch, error)
            return True
        try:
            self._commit(lambda: self._run_each(batch))
        except BaseException:
            return False
        return True

    def _run_each(self, batch: list[Operation]) -> None:
        for operation in batch:
            if not operation.begin():
                continue
            self.connection.execute("SAVEPOINT operation")
            try:
                with translated(self.path):
                    operation.result = operation.work()
            except UnicodeDecodeError:
                raise  # alone, the operation is done again in a way that reads garbled text
            except Exception as error:
                self.connection.execute("ROLLBACK TO operation")
                self._rolled_back()
                operation.result = Raised(error)
            self.connection.execute("RELEASE operation")

    def _roll_back(self) -> None:
        self._rolled_back()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
