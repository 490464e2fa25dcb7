"""Virtual tables of SQLite over a source: filters that a store answers cheaply are handed to it.

SQLite calls these methods on the thread that asks; the source reads on its event loop. A page is read when SQLite needs
its first row, so that no more than one page of each table is in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import apsw

from headgate.engine.contract import TABLES, Table
from headgate.engine.tables.rows import Row
from headgate.engine.tables.source import Source

T = TypeVar("T")
Wait = Callable[[Coroutine[Any, Any, T]], T]
"""Runs a coroutine of the source to its end, from the thread that asks."""

MODULE = "headgate"
ONE, SOME, ALL = 1.0, 10_000.0, 1_000_000.0
"""What reading costs: one job or key; what a filter leaves; everything."""
SQL_TYPES = {"integer": "INTEGER", "boolean": "INTEGER"}


def create_tables(connection: Any, source: Source, wait: Wait[Any], names: Sequence[str] = ()) -> None:
    """Create the tables with these names, all of them without any."""
    connection.create_module(MODULE, Module(source, wait))
    for table in TABLES:
        if not names or table.name in names:
            connection.execute(f"CREATE VIRTUAL TABLE temp.{table.name} USING {MODULE}")


class Module:
    """What SQLite asks for a table by its name."""

    def __init__(self, source: Source, wait: Wait[Any]) -> None:
        self.source = source
        self.wait = wait

    def Create(
        self, connection: Any, module: str, db: str, name: str, *args: str
    ) -> tuple[str, VirtualTable]:
        table = next(table for table in TABLES if table.name == name)
        columns = ", ".join(
            f'"{column.name}" {SQL_TYPES.get(column.type, "TEXT")}' for column in table.columns
        )
        return f"CREATE TABLE it ({columns})", VirtualTable(self, table)

    Connect = Create


class VirtualTable:
    """One table. SQLite checks every row again, so that a source may give too many."""

    def __init__(self, module: Module, table: Table) -> None:
        self._module = module
        self._table = table

    def BestIndex(
        self, constraints: Sequence[tuple[int, int]], orderbys: Sequence[tuple[int, bool]]
    ) -> tuple[list[int | None], int, str, bool, float]:
        """Take what must be equal in the columns by which the store finds rows."""
        usage: list[int | None] = []
        taken: list[str] = []
        for number, operator in constraints:
            name = self._table.columns[number].name if number >= 0 else ""
            takes = operator == apsw.SQLITE_INDEX_CONSTRAINT_EQ and name in self._table.found_by
            usage.append(len(taken) if takes and name not in taken else None)
            if usage[-1] is not None:
                taken.append(name)
        return usage, 0, ",".join(taken), False, _cost(taken)

    def Open(self) -> Cursor:
        return Cursor(self._module, self._table)

    def Disconnect(self) -> None:
        pass

    Destroy = Disconnect


def _cost(taken: Sequence[str]) -> float:
    if not taken:
        return ALL
    return ONE if {"id", "job", "key", "name"} & {*taken} else SOME / len(taken)


class Cursor:
    """One reading of a table."""

    def __init__(self, module: Module, table: Table) -> None:
        self._module = module
        self._table = table
        self._rows: Iterator[Row] = iter(())
        self._row: Row | None = None
        self._number = 0

    def Filter(self, number: int, taken: str, values: Sequence[Any]) -> None:
        """Begin to read."""
        # What is no text is equal to no text column, or only after a conversion that is SQLite's to make.
        pairs = zip(taken.split(","), values, strict=False)
        wanted = {name: value for name, value in pairs if name and isinstance(value, str)}
        nothing = any(value is None for value in values)
        self._rows = iter(()) if nothing else self._read(self._module.source.pages(self._table.name, wanted))
        self._number = 0
        self.Next()

    def _read(self, pages: AsyncIterator[Sequence[Row]]) -> Iterator[Row]:
        while (page := self._module.wait(_next(pages))) is not None:
            yield from page

    def Next(self) -> None:
        self._row = next(self._rows, None)
        self._number += 1

    def Eof(self) -> bool:
        return self._row is None

    def Rowid(self) -> int:
        return self._number

    def Column(self, number: int) -> Any:
        assert self._row is not None
        return self._number if number < 0 else self._row[number]

    def Close(self) -> None:
        self._rows = iter(())


async def _next(pages: AsyncIterator[Sequence[Row]]) -> Sequence[Row] | None:
    return await anext(pages, None)
