"""Enqueueing inside a caller's transaction, through whatever connection the caller has.

asyncpg, psycopg (sync and async) and SQLAlchemy (connections and sessions, sync and async) are told apart by where
their classes come from, so that none of them has to be installed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from headgate.engine.contract import Enqueued, Settings
from headgate.engine.postgres.enqueueing import enqueue_call, enqueue_result
from headgate.errors import ConfigError
from headgate.job import NewJob

Values = Sequence[Any]


async def enqueue_within(
    connection: Any, jobs: Sequence[NewJob], schema: str, settings: Settings, now: int | None
) -> list[Enqueued]:
    """Store jobs on the caller's connection. Errors of its driver are the caller's and pass as they are."""
    placeholder, run = _way(connection)
    statement, values = enqueue_call(
        schema, jobs, (), settings, now, None, notify=True, placeholder=placeholder
    )
    row = run(connection, statement, values)
    return enqueue_result(jobs, await row if inspect.isawaitable(row) else row)


def _way(connection: Any) -> tuple[str, Callable[[Any, str, Values], Any]]:
    modules = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    if "asyncpg" in modules:
        return "${}", _asyncpg
    if "psycopg" in modules:
        return "%s", _psycopg_async if hasattr(connection, "__aenter__") else _psycopg
    if "sqlalchemy" in modules:
        return ":p{}", _sqlalchemy
    raise ConfigError(
        f"connection={type(connection).__module__}.{type(connection).__qualname__} is not known; "
        "asyncpg, psycopg and SQLAlchemy connections and sessions are"
    )


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
