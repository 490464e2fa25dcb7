"""Whether a caller's transaction is one that jobs can be part of: open, and in the database that the store is in."""

from __future__ import annotations

from typing import Any, NamedTuple

from headgate.engine.postgres.pools import Pools
from headgate.engine.postgres.within import ask, standing, way_of
from headgate.errors import ConfigError

WHERE = """
SELECT current_database() AS database,
       (SELECT oid FROM pg_database WHERE datname = current_database()) AS number,
       (SELECT oid FROM pg_namespace WHERE nspname = CAST({} AS text)) AS schema,
       CAST(extract(epoch FROM pg_postmaster_start_time()) AS text) AS server
"""


class Place(NamedTuple):
    """Where a connection leads. Two servers do not start in the same microsecond."""

    server: str
    number: int
    schema: int | None


class Belonging:
    """Knows where the store is, and asks connections of callers whether they lead there."""

    def __init__(self, schema: str, where: str) -> None:
        self._schema = schema
        self._where = where
        self._ours: Place | None = None

    async def check(self, connection: Any, pools: Pools) -> None:
        """Raise ConfigError unless what the connection stores now is part of a transaction of the store's database."""
        driver, way = way_of(connection)
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        stands = await standing(way, driver)
        if stands.closed:
            raise ConfigError(f"{kind} is closed; enqueue before the connection is closed")
        if not stands.in_transaction:
            raise ConfigError(
                f"{kind} has no open transaction, so that each statement is committed alone; begin one first "
                "(`async with connection.transaction():`, transaction.atomic(), no autocommit)"
            )
        row = await ask(way, driver, WHERE.format(way.dialect.placeholder.format(1)), (self._schema,))
        theirs = Place(row["server"], row["number"], row["schema"])
        if theirs != self._ours and theirs != await self._look(pools):
            raise self._elsewhere(row["database"], theirs)

    async def _look(self, pools: Pools) -> Place:
        """Where the store is now: a server that was restarted, or failed over, is another place."""
        async with pools.connection() as connection:
            row = await connection.fetchrow(WHERE.format("$1"), self._schema)
        self._ours = Place(row["server"], row["number"], row["schema"])
        return self._ours

    def _elsewhere(self, database: str, theirs: Place) -> ConfigError:
        there = (
            f"has no schema {self._schema!r}" if theirs.schema is None else "is another one than the store's"
        )
        return ConfigError(
            f"the connection leads to database {database!r}, which {there}; the store is {self._where}. Give a "
            "connection to the store's database, or write `with app.on_commit():` around the transaction"
        )
