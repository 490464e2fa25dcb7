"""Text in the file that is no UTF-8: rows are read all the same, with such values as bytes.

apsw raises in the middle of a read. The operation is then undone and done again with cursors that read more slowly and
never raise; a healthy file pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import apsw.ext

from headgate.engine.sqlite.connection import Connection, Values


class GarbledRow(tuple[Any, ...]):
    """A row in which some value that should be text is bytes."""

    __slots__ = ()


class TolerantCursor(apsw.Cursor):
    """Rows whose text cannot be decoded are GarbledRows."""

    def fetchall(self) -> list[Values]:  # type: ignore[override]
        """All rows; of a statement that writes and returns, only those that can be read."""
        found: list[Values] = []
        again: str | None = None
        while True:
            try:
                found.append(next(self))
            except StopIteration:
                return found if again is None else _as_bytes(self.connection, again)
            except UnicodeDecodeError:
                again = self.expanded_sql if self.is_readonly else None

    def __iter__(self) -> Iterator[Values]:  # type: ignore[override]
        return iter(self.fetchall())


def _as_bytes(connection: apsw.Connection, statement: str) -> list[Values]:
    count = len(apsw.ext.query_info(connection, statement).description)  # pyright: ignore[reportUnknownMemberType]
    names = [f"c{number}" for number in range(count)]
    values = ", ".join(f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) ELSE {n} END" for n in names)
    cursor: Any = apsw.Cursor(connection)
    cursor.execute(
        f"WITH garbled({', '.join(names)}) AS ({statement.rstrip('; ')}) SELECT {values} FROM garbled"
    )
    return [_decoded(row) for row in cursor]


def _decoded(row: Values) -> Values:
    values = [_text(value) if isinstance(value, bytes) else value for value in row]
    return GarbledRow(values) if any(isinstance(value, bytes) for value in values) else tuple(values)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


@contextmanager
def tolerant(connection: Connection) -> Generator[None]:
    """What is read inside never raises because of text."""
    connection.cursor_factory = TolerantCursor
    try:
        yield
    finally:
        connection.cursor_factory = apsw.Cursor


def shown(value: Any) -> Any:
    """A value as people may see it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def shown_row(row: Values) -> Values:
    """A row as people may see it."""
    return tuple(shown(value) for value in row) if isinstance(row, GarbledRow) else row
