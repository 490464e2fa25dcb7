"""Questions in SQL over the tables of the contract: reading only, one statement, and the connection stays as it was.

A question stands as a subquery behind the tables, which are common table expressions over the views `sql_…`: so they
have their names without a schema of their own, and the server stops at the number of rows that is wanted. The
transaction cannot write, knows no other name than these and the server's own, and is rolled back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate.engine.contract import TABLES, Rows, Table
from headgate.engine.postgres.errors import TOOK_TOO_LONG, is_trouble
from headgate.engine.postgres.pools import Connection
from headgate.engine.postgres.scripts import quoted
from headgate.engine.postgres.wire import got
from headgate.errors import ConfigError

FIRST_WORD = re.compile(r"(?>\s+|\(|--[^\n]*\n|/\*.*?\*/)*+(\w+)", re.DOTALL)
"""Behind blanks, comments and parentheses."""
QUESTIONS = ("select", "with", "values", "table")
PLAIN = (bool, int, float, Decimal, datetime)
"""What passes as it is; of what else a server knows, people get the text."""


async def select(connection: Connection, schema: str, question: str, most: int, milliseconds: int) -> Rows:
    """The rows of a question, and whether there are more."""
    statement = f"{_tables(schema)}\nSELECT * FROM (\n{_bare(question)}\n) AS question LIMIT {most + 1}"
    async with _reading(connection, milliseconds):
        columns, found = await _ask(connection, statement, milliseconds)
    return Rows(columns, tuple(tuple(map(_value, row)) for row in found[:most]), len(found) > most)


async def _ask(
    connection: Connection, statement: str, milliseconds: int
) -> tuple[tuple[str, ...], Sequence[Any]]:
    try:
        # Without a name, it is forgotten with the next one.
        prepared = await connection.prepare(statement, name="")
        if not prepared.get_parameters():
            return tuple(attribute.name for attribute in prepared.get_attributes()), await prepared.fetch()
    except asyncpg.PostgresError as error:
        if is_trouble(error):
            raise
        raise ConfigError(_words(error, milliseconds)) from error
    except (
        ValueError,
        OverflowError,
    ) as error:  # what cannot be sent, or a point in time that Python does not know
        raise ConfigError(f"the question or its answer cannot be read: {error}") from error
    raise ConfigError("the question has parameters ($1); write their values into it")


@asynccontextmanager
async def _reading(connection: Connection, milliseconds: int) -> AsyncGenerator[None]:
    """What is asked inside changes nothing, neither in the store nor of the connection."""
    transaction = connection.transaction(readonly=True)
    await transaction.start()
    try:
        await connection.execute(
            f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL search_path = pg_catalog; SET LOCAL jit = off"
        )
        yield
    finally:
        if not connection.is_closed():
            await transaction.rollback()
            await connection.execute("SELECT pg_advisory_unlock_all()")  # these outlive a transaction


@cache
def _tables(schema: str) -> str:
    return "WITH " + ",\n".join(_table(schema, table) for table in TABLES)


def _table(schema: str, table: Table) -> str:
    columns = ", ".join(quoted(column.name) for column in table.columns)
    view = f"{quoted(schema)}.{quoted('sql_' + table.name)}"
    return f"{quoted(table.name)} AS NOT MATERIALIZED (SELECT {columns} FROM {view})"


def _bare(question: str) -> str:
    """Without the semicolon that ends a statement."""
    first = FIRST_WORD.match(question)
    if "\0" in question or first is None or first[1].lower() not in QUESTIONS:
        raise ConfigError(f"{question[:40]!r} is no question: it begins with SELECT, WITH, VALUES or TABLE")
    return question.strip().rstrip(";")


def _words(error: asyncpg.PostgresError, milliseconds: int) -> str:
    """The server's."""
    if getattr(error, "sqlstate", None) == TOOK_TOO_LONG:
        return f"the question took longer than {milliseconds / 1000:g} s ({error})"
    return str(error).replace("\n", "; ")


def _value(value: Any) -> Any:
    match value:
        case None:
            return None
        case str():
            return got(value)
        case list():
            return [_value(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value if isinstance(value, PLAIN) else str(value)
