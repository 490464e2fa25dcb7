"""Vacuum in time. What left a line stays in its index until it is vacuumed, and every claim passes over it.

Autovacuum comes by once a minute, in which a busy store leaves half a million dead entries. The process that sweeps
looks how many there are, and vacuums the tables that every claim reads: the lines, and the keys to look at, whose table
is read from end to end (0.4 ms more for each 150,000 that came and went). What costs are the entries of the indexes,
which the server leaves alone where few pages have dead rows: so it is told to clean them. Where the user may not
vacuum, the server skips it, and autovacuum has to do.

A vacuum leaves a table as long as it is if it cannot have the table for itself just then, or if its last page is in
use: after a burst of a million newcomers every claim would read 5,000 empty pages. So a list of keys that is long and
holds little is vacuumed again until it is short.
"""

from __future__ import annotations

import asyncio
import logging
import time

from headgate.engine.postgres.pools import Connection, Pools
from headgate.engine.postgres.scripts import quoted
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.postgres")

LIST, LINES = "rechecks", "live"
TABLES = (LIST, LINES)
"""In this order: the list takes no time, the lines may take minutes."""
DEAD = 20_000
SHARE = 0.2
"""So many dead rows, and this share of the living ones, are worth a vacuum."""
LONG, FEW = 256, 2_000
"""Pages of a list with so few entries at most that are worth a vacuum: reading them takes a tenth of a millisecond."""
PAUSE = 5.0
"""Seconds between looks."""
VACUUM_TIMEOUT = 600.0
"""Seconds."""


class Vacuum:
    """At most one vacuum at a time in this process; SKIP_LOCKED keeps processes out of each other's way."""

    def __init__(self, pools: Pools, schema: str) -> None:
        self._pools = pools
        self._tables = {table: f"{quoted(schema)}.{table}" for table in TABLES}
        self._task: asyncio.Task[None] | None = None
        self._next = 0.0

    def begin(self) -> None:
        """Look in the background, if it is time."""
        if time.monotonic() >= self._next and (self._task is None or self._task.done()):
            self._next = time.monotonic() + PAUSE
            self._task = asyncio.get_running_loop().create_task(self.run())

    def stop(self) -> None:
        """Give up what is under way."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def run(self) -> None:
        """Look, and vacuum if it is worth it."""
        try:
            async with self._pools.connection(within=VACUUM_TIMEOUT) as connection:
                for name, table in self._tables.items():
                    if await _has_died(connection, table) or (
                        name == LIST and await _is_hollow(connection, table)
                    ):
                        await connection.execute(f"VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) {table}")
        except HeadgateError as error:
            log.debug("nothing was vacuumed: %s", error)


async def _has_died(connection: Connection, table: str) -> bool:
    dead, alive = await connection.fetchrow(
        "SELECT pg_stat_get_dead_tuples(t.id), pg_stat_get_live_tuples(t.id)"
        " FROM (SELECT $1::text::regclass AS id) AS t",
        table,
    )
    return dead > DEAD + SHARE * alive


async def _is_hollow(connection: Connection, table: str) -> bool:
    """Its entries are counted, since what the server knows of them is as old as the last vacuum."""
    pages = await connection.fetchval(
        "SELECT pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint", table
    )
    if pages <= LONG:
        return False
    entries = await connection.fetchval(f"SELECT count(*) FROM (SELECT FROM {table} LIMIT {FEW + 1}) AS e")
    return entries <= FEW
