"""Opening a SQLite file the right way, and turning SQLite's errors into ours."""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar, cast

import apsw

from headgate.clock import SECOND
from headgate.errors import EngineUnavailable, HeadgateError, SchemaMismatch

T = TypeVar("T")
Values = tuple[Any, ...]
Synchronous = Literal["NORMAL", "FULL"]
SAFE_VERSION = (3, 51, 3)
"""Before this SQLite could corrupt a file in WAL mode when several processes write (the WAL-reset bug)."""

CACHE_STATEMENTS = 200


class Cursor(Protocol):
    """The rows of one statement."""

    def __iter__(self) -> Iterator[Values]: ...
    def fetchall(self) -> list[Values]: ...
    @property
    def get(self) -> Any:
        """The only value of the only row; None without a row."""
        ...


class Connection(Protocol):
    """What the engine uses of an apsw connection, with types that say what comes out of our statements."""

    cursor_factory: Any

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None) -> Cursor: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Any]]) -> Cursor: ...
    def changes(self) -> int: ...
    def total_changes(self) -> int: ...
    def last_insert_rowid(self) -> int: ...
    def pragma(self, name: str) -> Any: ...
    def set_wal_hook(self, callable: Callable[[Any, str, int], int] | None) -> None: ...
    def wal_checkpoint(self) -> tuple[int, int]: ...
    def close(self) -> None: ...


StoreError = apsw.Error


def check_library() -> None:
    """Refuse a SQLite that may corrupt files."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SAFE_VERSION:
        raise EngineUnavailable(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database that several processes write; "
            f"install apsw {'.'.join(map(str, SAFE_VERSION))} or newer"
        )


def connect(path: str, synchronous: Synchronous, busy_timeout: int) -> Connection:
    """A connection in WAL mode that waits its turn."""
    opened = apsw.Connection(path, statementcachesize=CACHE_STATEMENTS)
    opened.set_busy_handler(patience(busy_timeout))
    # Plans must not depend on bound values: without this, SQLite prepares most of our statements anew at every use.
    opened.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection = cast(Connection, opened)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def connect_to_read(path: str, busy_timeout: int) -> Connection:
    """A connection that cannot write to the file."""
    opened = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    opened.set_busy_handler(patience(busy_timeout))
    connection = cast(Connection, opened)
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


class Haste(threading.local):
    """How long this thread may wait for another process's lock. `with haste:` not at all, and is told so at once."""

    until = math.inf
    """A time of the monotonic clock."""

    def __enter__(self) -> None:
        self.until = 0.0

    def __exit__(self, *_: object) -> None:
        self.until = math.inf


haste = Haste()


def patience(busy_timeout: int) -> Callable[[int], bool]:
    """Wait for another process's lock in short random naps: SQLite's own back-off naps up to 100 ms at a time, which
    is a hundred transactions of ours."""
    deadline = 0.0

    def wait(count: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if count == 0:
            deadline = now + busy_timeout / SECOND
        if now >= min(deadline, haste.until):
            return False
        time.sleep(random.uniform(0.0002, 0.0005 + min(count, 50) * 0.0001))
        return True

    return wait


def insist(act: Callable[[], T], busy_timeout: int) -> T:
    """Do what SQLite refuses, without asking the busy handler, while other processes open or close the file."""
    wait = patience(busy_timeout)
    for count in itertools.count():
        try:
            return act()
        except apsw.BusyError:
            if not wait(count):
                raise
    raise AssertionError


def use_wal(connection: Connection, path: str, busy_timeout: int) -> None:
    """Switch the file to WAL mode, which needs it alone for a moment."""
    mode = insist(lambda: connection.execute("PRAGMA journal_mode = WAL").get, busy_timeout)
    if mode != "wal":
        raise EngineUnavailable(f"{path} cannot be used in WAL mode; is it on a network file system?")


class translated:
    """`with translated(path):` SQLite's errors become Headgate's, with what to do about them."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, apsw.Error) and (better := translation(self.path, error)) is not None:
            raise better from error


def translation(path: str, error: apsw.Error) -> HeadgateError | None:
    """What an error of SQLite means for a user of the file; None for one that would be a mistake of ours."""
    match error:
        case apsw.BusyError():
            return EngineUnavailable(
                f"{path} stayed locked by another process past the busy timeout; is one stuck in a transaction?"
            )
        case apsw.FullError():
            return EngineUnavailable(f"the disk that holds {path} is full; nothing was stored")
        case apsw.ReadOnlyError():
            return EngineUnavailable(f"{path} cannot be written: the file or its folder is read-only")
        case apsw.CantOpenError():
            return EngineUnavailable(
                f"{path} cannot be opened: does its folder exist, and may this process write there?"
            )
        case apsw.NotADBError():
            return SchemaMismatch(f"{path} is not a SQLite database, so it is not a Headgate one")
        case apsw.CorruptError():
            return EngineUnavailable(f"{path} is damaged ({error}); restore it from a backup")
        case (
            apsw.IOError()
            | apsw.ProtocolError()
            | apsw.PermissionsError()
            | apsw.AuthError()
            | apsw.NoMemError()
        ):
            return EngineUnavailable(f"{path}: {type(error).__name__}: {error}")
        case _:
            return None
