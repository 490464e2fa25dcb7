"""What the server counts, in time for a test to look at it."""

from __future__ import annotations

import asyncio

from headgate.engine.postgres import PostgresEngine


async def flush(engine: PostgresEngine) -> None:
    """The engine's connections tell the server what they have counted. Before 15 they do so once a second, by a
    collector that may take a while to write it down."""
    for exchange in (True, False):
        async with engine.pools.connection(exchange=exchange) as connection:
            if connection.get_server_version().major >= 15:
                await connection.execute("SELECT pg_stat_force_next_flush()")
            else:
                await asyncio.sleep(1.1)
                await connection.execute("SELECT 1")
                await asyncio.sleep(0.6)
