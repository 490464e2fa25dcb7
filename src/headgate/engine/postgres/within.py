"""Enqueueing inside a caller's transaction, through whatever connection the caller has.

asyncpg, psycopg (sync and async) and SQLAlchemy (connections and sessions, sync and async) are told apart by the names
of their classes, so that none of them has to be installed. A pool, an engine or a cursor is refused: what it would run
is not the caller's transaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from headgate.engine.contract import Enqueued, Settings
from headgate.engine.postgres.enqueueing import (
    OURS,
    Dialect,
    enqueue_call,
    enqueue_result,
    enqueue_values,
    one_call,
    one_result,
    one_values,
)
from headgate.errors import ConfigError
from headgate.job import NewJob

Values = Sequence[Any]


class Way(NamedTuple):
    """How one kind of connection takes a statement."""

    dialect: Dialect
    run: Callable[[Any, str, Values], Any]


async def enqueue_within(
    connection: Any, jobs: Sequence[NewJob], schema: str, settings: Settings, now: int | None
) -> list[Enqueued]:
    """Store jobs on the caller's connection. Errors of its driver are the caller's and pass as they are."""
    way = _way(connection)
    if (values := one_values(jobs, now, None, notify=True)) is not None:
        row = await _run(way, connection, one_call(schema, way.dialect), values)
        return [one_result(jobs[0], row)]
    values = enqueue_values(jobs, (), settings, now, None, notify=True)
    return enqueue_result(jobs, await _run(way, connection, enqueue_call(schema, way.dialect), values))


async def _run(way: Way, connection: Any, statement: str, values: Values) -> Any:
    row = way.run(connection, statement, values)
    return await row if inspect.isawaitable(row) else row


def _way(connection: Any) -> Way:
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(connection).__mro__}
    if kinds & {"asyncpg.Connection", "asyncpg.PoolConnectionProxy"}:
        return Way(OURS, _asyncpg)
    if "psycopg.AsyncConnection" in kinds:
        return Way(Dialect("%s", _double_percents), _psycopg_async)
    if "psycopg.Connection" in kinds:
        return Way(Dialect("%s", _double_percents), _psycopg)
    if kinds & _SQLALCHEMY:
        return Way(Dialect(":p{}", _hide_colons), _sqlalchemy)
    raise ConfigError(
        f"connection={type(connection).__module__}.{type(connection).__qualname__} cannot be enqueued on; "
        "give a connection of asyncpg or psycopg, or a connection or session of SQLAlchemy"
    )


_SQLALCHEMY = {
    "sqlalchemy.Connection", "sqlalchemy.Session", "sqlalchemy.scoped_session",
    "sqlalchemy.AsyncConnection", "sqlalchemy.AsyncSession", "sqlalchemy.async_scoped_session",
}  # fmt: skip


def _double_percents(text: str) -> str:
    return text.replace("%", "%%")


def _hide_colons(text: str) -> str:
    return text.replace(":", "\\:")


async def _asyncpg(connection: Any, statement: str, values: Values) -> Any:
    return await connection.fetchrow(statement, *values)


async def _psycopg_async(connection: Any, statement: str, values: Values) -> Any:
    async with connection.cursor(row_factory=import_module("psycopg.rows").dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()


def _psycopg(connection: Any, statement: str, values: Values) -> Any:
    with connection.cursor(row_factory=import_module("psycopg.rows").dict_row) as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()


def _sqlalchemy(connection: Any, statement: str, values: Values) -> Any:
    text = import_module("sqlalchemy").text(statement)
    result = connection.execute(text, {f"p{number}": value for number, value in enumerate(values, 1)})
    return _first_later(result) if inspect.isawaitable(result) else result.mappings().one()


async def _first_later(result: Any) -> Any:
    return (await result).mappings().one()
