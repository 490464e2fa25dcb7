"""A thread with a connection of its own that runs whole operations.

Operations that arrive while one is under way are run together in the next transaction (natural group commit): each in
a savepoint, so that one that raises takes nothing with it. Nothing waits for a timer. Brief work that finds nobody at
work is done on its caller's thread, with the writer's connection.
"""

from __future__ import annotations

import asyncio
import copy
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from headgate.engine.sqlite.connection import Connection, StoreError, haste, translated
from headgate.engine.sqlite.garbled import tolerant
from headgate.engine.sqlite.session import Session
from headgate.errors import EngineUnavailable, HeadgateError

T = TypeVar("T")
Glance = Callable[[], Any]
Chore = Callable[[Connection], None]
MOST_TOGETHER = 200
INLINE_SECONDS = 0.002
"""Seconds that brief work may take."""
CAUTION = 10
"""A slow disk must not hold up an event loop: after work that was not brief, the writer's thread does what comes, for
so many times as long."""
SOON = 0.005
"""Seconds between two looks at what other processes did, at least."""
LOOKS = 3
"""Looks after a nudge: a commit is heard of when it is written to the log, which is just before it can be seen."""


class Operation:
    """Work for the thread. `glance` may answer without a transaction when there is nothing to write; `after` runs once
    the result is safely committed."""

    __slots__ = (
        "_claimed",
        "after",
        "begun",
        "future",
        "glance",
        "loop",
        "result",
        "seconds",
        "until",
        "work",
    )

    def __init__(
        self, work: Callable[[], Any], glance: Glance | None, after: Callable[[], None] | None, seconds: float
    ) -> None:
        self.work = work
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self.begun = False
        self._claimed = threading.Lock()
        self.glance = glance
        self.after = after
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None

    def begin(self) -> bool:
        """Whether it is still wanted; from now on it cannot be withdrawn. Asked again where a group broke."""
        self.begun = self.begun or self._claimed.acquire(blocking=False)
        return self.begun

    def run(self) -> Any:
        """Do the work, if it is still wanted."""
        return self.work() if self.begun or self.begin() else None

    def withdraw(self) -> bool:
        """Whether it had not begun: it never will."""
        return self._claimed.acquire(blocking=False)


class Deadlines:
    """The operations that callers of one event loop wait for. One timer serves them all: it is moved only where an
    operation is to end before any other, and moves itself on when it rings."""

    def __init__(self, loop: asyncio.AbstractEventLoop, too_late: Callable[[Operation], None]) -> None:
        self._loop = loop
        self._too_late = too_late
        self._pending: dict[Operation, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def add(self, operation: Operation) -> None:
        """The operation will be told when it is too late."""
        self._pending[operation] = None
        if operation.until < self._at:
            self._arm(operation.until)

    def remove(self, operation: Operation) -> None:
        """The operation has ended, or its caller waits no longer."""
        del self._pending[operation]

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer, self._at = None, math.inf
        now = time.monotonic()
        for operation in self._pending:
            if operation.until <= now:
                self._too_late(operation)
        later = [operation.until for operation in self._pending if operation.until > now]
        if later:
            self._arm(min(later))


class Lookout(Protocol):
    """Looks for what other processes did."""

    @property
    def rest(self) -> float | None:
        """Seconds between two looks unless it is nudged; None if nobody wants to know."""
        ...

    def stirred(self) -> bool:
        """Whether a look may find something; cheap, since it is asked all the time."""
        ...

    def look(self, connection: Connection) -> None:
        """Find out."""
        ...


class Writer:
    """Runs operations one batch after another. `writes` wraps batches in a transaction; `rolled_back` is told when
    what an operation did was undone. `lookout` looks for other processes' commits every few milliseconds."""

    def __init__(
        self,
        name: str,
        path: str,
        connect: Callable[[], Connection],
        *,
        writes: bool,
        rolled_back: Callable[[], None] = lambda: None,
        lookout: Lookout | None = None,
    ) -> None:
        self.path = path
        self._session = Session(path, connect)
        self._writes = writes
        self._rolled_back = rolled_back
        self._lookout = lookout
        self._looked = 0.0
        self._looks = 0
        self._hasty = False
        self._cautious_until = 0.0
        self._lock = threading.Lock()
        self._stopped = False
        self._queue: SimpleQueue[Operation | Chore | None] = SimpleQueue()
        self._deadlines: dict[asyncio.AbstractEventLoop, Deadlines] = {}
        self._opened = threading.Event()
        self._error: BaseException | None = None
        self.connection: Connection
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Open the connection on the writer's thread; raises what went wrong there."""
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
        """Have `chore` run between two operations. Nobody waits for it or hears of its errors."""
        self._queue.put(chore)

    def nudge(self) -> None:
        """Look soon: somebody begins to watch, or another process may have done something."""
        self._looks = LOOKS
        self._queue.put(_nothing)

    async def run(
        self,
        work: Callable[[], T],
        seconds: float,
        glance: Glance | None = None,
        after: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` on the writer's thread and wait for it, for so many seconds."""
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

    async def run_inline(self, work: Callable[[], T], seconds: float, after: Callable[[], None]) -> T:
        """Run work that takes less time than two hops between threads: here and now if nobody is at work, else as `run`
        does. Other callers get their turn in between; what they bring meanwhile is run together."""
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
                _deliver(batch)
            if chore is not _nothing:
                self._do(chore)
            self._look_around()
        self._session.close()

    def _look_around(self) -> None:
        pause = self._pause()
        if self._lookout is None or pause is None or pause > SOON / 10:
            return
        self._looked, self._looks = time.monotonic(), max(0, self._looks - 1)
        if self._lookout.stirred():
            self._do(self._lookout.look)

    def _pause(self) -> float | None:
        """Seconds until it is time to look; None for never."""
        rest = None if self._lookout is None else self._lookout.rest
        if rest is None:
            return None
        return max(0.0, self._looked + (SOON if self._looks else rest) - time.monotonic())

    def _do(self, chore: Chore) -> None:
        haste.until = math.inf
        try:
            with self._session as connection:
                chore(connection)
        except (StoreError, HeadgateError):
            pass  # whoever needs the file is told by its own operation

    def _run_connected(self, batch: list[Operation]) -> None:
        haste.until = batch[0].until if len(batch) == 1 else max(operation.until for operation in batch)
        try:
            with translated(self.path), self._session as self.connection:
                self._run_batch(batch)
        except BaseException as error:
            _fail(batch, error)

    def _next(self) -> tuple[list[Operation], Chore] | None:
        """The operations that are there, and what to do after them; none when it is time to look; None at the end."""
        batch: list[Operation] = []
        try:
            item = self._queue.get(timeout=self._pause())
            while isinstance(item, Operation):
                batch.append(item)
                item = self._queue.get_nowait() if len(batch) < MOST_TOGETHER else _nothing
        except Empty:
            return batch, _nothing
        if item is not None:
            return batch, item
        if not batch:
            return None
        self._queue.put(None)
        return batch, _nothing

    def _run_batch(self, batch: list[Operation]) -> None:
        if len(batch) > 1 and self._writes and self._run_together(batch):
            return
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
        if not self._writes:
            return operation.run()
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
            _fail(batch, error)
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


def _nothing(_: Connection) -> None:
    pass


class Raised:
    """An operation's exception, on its way to whoever awaits it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _fail(batch: list[Operation], error: BaseException) -> None:
    for operation in batch:
        operation.result = Raised(copy.copy(error))  # each caller adds its own traceback


def _deliver(batch: list[Operation]) -> None:
    """Wake each event loop once for all of its results."""
    loops: dict[asyncio.AbstractEventLoop, list[Operation]] = defaultdict(list)
    for operation in batch:
        if operation.after is not None and not isinstance(operation.result, Raised):
            operation.after()
        loops[operation.loop].append(operation)
    for loop, operations in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, operations)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _resolve(operations: list[Operation]) -> None:
    for operation in operations:
        if operation.future.done():
            continue
        if isinstance(operation.result, Raised):
            operation.future.set_exception(operation.result.error)
        else:
            operation.future.set_result(operation.result)
