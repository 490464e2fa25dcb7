"""What the server counts, in time for a test to look at it."""

from __future__ import annotations

import asyncio

from headgate.engine.postgres import PostgresEngine


async def flush(engine: PostgresEngine) -> None:
    """The engine's connection tells the server what it has counted. Before 15 it does so once a second, by a collector
    that may take a while to write it down."""
    async with engine.lanes.connection() as connection:
        if connection.get_server_version().major >= 15:
            await connection.execute("SELECT pg_stat_force_next_flush()")
        else:
            await asyncio.sleep(1.1)
            await connection.execute("SELECT 1")
            await asyncio.sleep(0.6)
