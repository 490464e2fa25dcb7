"""One question in SQL over a connection that may only read, within bounds of rows and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

import apsw
import apsw.ext

from headgate.engine.contract import TABLES, Rows
from headgate.errors import ConfigError

NAMES = frozenset(table.name for table in TABLES)
FUNCTIONS = frozenset({"json_each", "json_tree"})
"""Functions of SQLite that stand where a table stands."""
STEPS = 2000
"""Instructions of SQLite between two looks at the clock: less than a millisecond."""
LONGEST_VALUE = 256 * 1024 * 1024

READS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})


class Question:
    """`sql` with its bounds. `answer` runs on a thread; `stop` may be called from any other."""

    def __init__(self, sql: str, limit: int, timeout: int) -> None:
        self.sql = sql
        self.limit = limit
        self.seconds = timeout / 1_000_000
        self.until = time.monotonic() + self.seconds
        self.stopped = False

    def stop(self) -> None:
        """The answer is wanted no more."""
        self.stopped = True

    @property
    def over(self) -> bool:
        """Whether to give up."""
        return self.stopped or time.monotonic() > self.until

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self.until - time.monotonic(), 0)

    def too_long(self) -> ConfigError:
        """What is raised when the time is up."""
        return ConfigError(
            f"the question took longer than {self.seconds:g} s; ask for less, or give it more time"
        )

    def answer(self, connection: Any, beneath: Collection[str] = ()) -> Rows:
        """Ask. `beneath` are the tables of the file that views of the connection may read."""
        there = {name for (name,) in connection.execute("SELECT name FROM pragma_table_list")}
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.authorizer = reading_only(beneath, there - NAMES)
        connection.set_progress_handler(lambda: self.over, STEPS)
        try:
            return self._answer(connection)
        except apsw.InterruptError:
            raise self.too_long() from None
        except UnicodeDecodeError as error:
            text = "the answer has text that is not UTF-8; ask for hex(column), or for other rows"
            raise ConfigError(f"{text}: {error}") from None
        except (
            apsw.SQLError,
            apsw.AuthError,
            apsw.RangeError,
            apsw.TooBigError,
            apsw.MismatchError,
        ) as error:
            raise ConfigError(f"the store does not answer this question: {error}") from None

    def _answer(self, connection: Any) -> Rows:
        asked = _info(connection, self.sql)
        if asked.query_remaining and _info(connection, asked.query_remaining).description:
            raise ConfigError("one question at a time: leave out what follows the semicolon")
        if not asked.description:
            raise ConfigError("a question such as 'select * from jobs' is needed")
        cursor: Any = connection.execute(asked.first_query)
        rows: list[tuple[Any, ...]] = list(islice(cursor, self.limit + 1))
        columns = tuple(column[0] for column in asked.description)
        return Rows(columns, tuple(rows[: self.limit]), more=len(rows) > self.limit)


def _info(connection: Any, sql: str) -> Any:
    """What the first statement of a text is, without running it."""
    return apsw.ext.query_info(connection, sql)  # pyright: ignore[reportUnknownMemberType]


def reading_only(beneath: Collection[str], hidden: Collection[str] = ()) -> Callable[..., int]:
    """Says yes to reading the tables of the reference, and no to everything else.

    A table of the file is read through a view only. (A query can call a part of itself as a view is called; what it
    reads then is in the view anyway.) Rows that are only counted or joined, of which no column is read, come without
    the view; without a schema they may be of a part of the query.
    """

    def authorize(
        action: int, first: str | None, second: str | None, db: str | None, view: str | None
    ) -> int:
        if action in READS:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_FUNCTION:
            return apsw.SQLITE_DENY if second == "load_extension" else apsw.SQLITE_OK
        if action == apsw.SQLITE_READ:
            shown = first in NAMES and db == "temp"
            counted = not second and (first not in hidden if db is None else first in beneath)
            under = first in beneath and db == "main" and view in NAMES
            return apsw.SQLITE_OK if shown or counted or under or first in FUNCTIONS else apsw.SQLITE_DENY
        return apsw.SQLITE_DENY

    return authorize
