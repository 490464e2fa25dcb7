"""Vacuum in time. What left a line stays in its index until it is vacuumed, and every claim passes over it.

Autovacuum comes by once a minute, in which a busy store leaves half a million dead entries. The process that sweeps
looks how many there are, and vacuums the tables that every claim reads: the lines, and the keys to look at, whose table
is read from end to end (0.4 ms more for each 150,000 that came and went). What costs are the entries of the indexes,
which the server leaves alone where few pages have dead rows: so it is told to clean them. Where the user may not
vacuum, the server skips it, and autovacuum has to do.
"""

from __future__ import annotations

import asyncio
import logging
import time

from headgate.engine.postgres.pools import Pools
from headgate.engine.postgres.scripts import quoted
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.postgres")

TABLES = ("live", "rechecks")
DEAD = 20_000
SHARE = 0.2
"""So many dead rows, and this share of the living ones, are worth a vacuum."""
PAUSE = 5.0
"""Seconds between looks."""
VACUUM_TIMEOUT = 600.0
"""Seconds."""


class Vacuum:
    """At most one vacuum at a time in this process; SKIP_LOCKED keeps processes out of each other's way."""

    def __init__(self, pools: Pools, schema: str) -> None:
        self._pools = pools
        self._tables = [f"{quoted(schema)}.{table}" for table in TABLES]
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
                for table in self._tables:
                    dead, alive = await connection.fetchrow(
                        "SELECT pg_stat_get_dead_tuples(t.id), pg_stat_get_live_tuples(t.id)"
                        " FROM (SELECT $1::text::regclass AS id) AS t",
                        table,
                    )
                    if dead > DEAD + SHARE * alive:
                        await connection.execute(f"VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON) {table}")
        except HeadgateError as error:
            log.debug("nothing was vacuumed: %s", error)
