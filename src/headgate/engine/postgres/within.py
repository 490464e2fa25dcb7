"""Enqueueing inside a caller's transaction, through whatever connection the caller has.

asyncpg, psycopg (sync and async), SQLAlchemy (connections and sessions, sync and async) and Django are told apart by
the names of their classes, so that none of them has to be installed. A pool, an engine or a cursor is refused: what it
would run is not the caller's transaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from headgate.callers import by_the_caller
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
    """How one kind of connection takes a statement, and how it stands: closed, in a transaction, or neither."""

    dialect: Dialect
    run: Callable[[Any, str, Values], Any]
    standing: Callable[[Any], Any]
    awaited: bool = False


class Standing(NamedTuple):
    """Whether a connection is closed, and whether what it runs now is part of a transaction."""

    closed: bool
    in_transaction: bool


async def enqueue_within(
    connection: Any, jobs: Sequence[NewJob], schema: str, settings: Settings, now: int | None
) -> list[Enqueued]:
    """Store jobs on the caller's connection. Errors of its driver are the caller's and pass as they are."""
    connection, way = way_of(connection)
    one = one_values(jobs, now, None, notify=True)
    with _pointing_at_the_store(schema):
        if one is not None:
            row = await ask(way, connection, one_call(schema, way.dialect), one)
            return [one_result(jobs[0], row)]
        values = enqueue_values(jobs, (), settings, now, None, notify=True)
        return enqueue_result(jobs, await ask(way, connection, enqueue_call(schema, way.dialect), values))


async def ask(way: Way, connection: Any, statement: str, values: Values) -> Any:
    """The one row that a statement answers."""
    return await _by(way, lambda: way.run(connection, statement, values))


async def standing(way: Way, connection: Any) -> Standing:
    """How a connection stands."""
    return await _by(way, lambda: way.standing(connection))


async def _by(way: Way, ask: Callable[[], Any]) -> Any:
    """Await it, or let the thread wait for it whose connection it is."""
    if not way.awaited:
        return await by_the_caller(ask)
    found = ask()
    return await found if inspect.isawaitable(found) else found


@contextmanager
def _pointing_at_the_store(schema: str) -> Generator[None]:
    """Errors of the caller's driver stay what they are; those of a database without the store say what is wrong."""
    try:
        yield
    except Exception as error:
        if getattr(getattr(error, "orig", error), "sqlstate", None) in NO_SUCH_STORE:
            error.add_note(
                f"the connection leads to a database without the store (schema {schema!r}); give one to the database "
                "that the app's URL names"
            )
        raise


NO_SUCH_STORE = ("3F000", "42883")
"""No such schema, no such function."""


def way_of(connection: Any) -> tuple[Any, Way]:
    """The connection to speak to, and how to."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(connection).__mro__}
    if kinds & {"asyncpg.Connection", "asyncpg.PoolConnectionProxy"}:
        return connection, Way(OURS, _asyncpg, _asyncpg_standing, awaited=True)
    if "psycopg.AsyncConnection" in kinds:
        return connection, Way(PERCENTS, _psycopg_async, _psycopg_standing, awaited=True)
    if "psycopg.Connection" in kinds:
        return connection, Way(PERCENTS, _psycopg, _psycopg_standing)
    for kind, standing, awaited in _SQLALCHEMY:
        if kind in kinds:
            return connection, Way(COLONS, _sqlalchemy, standing, awaited)
    if "django.BaseDatabaseWrapper" in kinds:
        return _beneath_django(connection)
    raise ConfigError(
        f"connection={_kind(connection)} cannot be enqueued on; "
        "give a connection of asyncpg or psycopg, or a connection or session of SQLAlchemy"
    )


def _kind(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _beneath_django(connection: Any) -> tuple[Any, Way]:
    """Django's connection refuses other threads, and the sync twins work in one; psycopg's takes turns."""
    if connection.vendor != "postgresql":
        raise ConfigError(
            f"Django's connection {connection.alias!r} leads to {connection.display_name}, and the store is in a "
            "PostgreSQL database"
        )

    def standing(_: Any) -> Standing:
        return _django_standing(connection)

    if connection.connection is None:
        return connection, Way(PERCENTS, _not_connected, standing)
    raw, way = way_of(connection.connection)
    return raw, way._replace(standing=standing)


def _not_connected(connection: Any, statement: str, values: Values) -> Any:
    raise ConfigError(
        f"Django's connection {connection.alias!r} has no open transaction; enqueue inside transaction.atomic()"
    )


def _double_percents(text: str) -> str:
    return text.replace("%", "%%")


def _hide_colons(text: str) -> str:
    return text.replace(":", "\\:")


PERCENTS, COLONS = Dialect("%s", _double_percents), Dialect(":p{}", _hide_colons)


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


def _asyncpg_standing(connection: Any) -> Standing:
    closed = connection.is_closed()
    return Standing(closed, not closed and connection.is_in_transaction())


IDLE = 0
"""psycopg's status of a connection between two transactions."""


def _psycopg_standing(connection: Any) -> Standing:
    closed = connection.closed
    begins = not closed and not connection.autocommit  # a transaction begins with the first statement
    return Standing(closed, begins or (not closed and connection.info.transaction_status != IDLE))


def _django_standing(connection: Any) -> Standing:
    raw = connection.connection
    return Standing(
        raw is not None and bool(raw.closed), connection.in_atomic_block or not connection.autocommit
    )


def _sqlalchemy_standing(connection: Any) -> Standing:
    """It begins by itself; but its driver may have been told to commit each statement."""
    if connection.closed:
        return Standing(True, False)
    return Standing(False, not getattr(connection.connection.dbapi_connection, "autocommit", False))


def _session_standing(session: Any) -> Standing:
    return _sqlalchemy_standing(session.connection())


def _async_sqlalchemy_standing(connection: Any) -> Standing:
    return Standing(True, False) if connection.closed else _sqlalchemy_standing(connection.sync_connection)


async def _async_session_standing(session: Any) -> Standing:
    return _async_sqlalchemy_standing(await session.connection())


_SQLALCHEMY: tuple[tuple[str, Callable[[Any], Any], bool], ...] = (
    ("sqlalchemy.Connection", _sqlalchemy_standing, False),
    ("sqlalchemy.Session", _session_standing, False),
    ("sqlalchemy.scoped_session", _session_standing, False),
    ("sqlalchemy.AsyncConnection", _async_sqlalchemy_standing, True),
    ("sqlalchemy.AsyncSession", _async_session_standing, True),
    ("sqlalchemy.async_scoped_session", _async_session_standing, True),
)
