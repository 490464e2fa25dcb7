"""What the server counts, in time for a test to look at it."""

from __future__ import annotations

import asyncio

from headgate.engine.postgres import PostgresEngine


async def flush(engine: PostgresEngine) -> None:
    """All of the engine's connections tell the server what they have counted: one that is left out would add it to what
    a later call costs. Before 15 they do so once a second, by a collector that may take a while to write it down."""
    looking = engine._store.vacuum._task
    if looking is not None:
        await looking  # it has a connection of its own
    pool = await engine.pools.pool()
    for connection in [connection for connection, _ in pool._idle + pool._exchanging]:
        if connection.get_server_version().major >= 15:
            await connection.execute("SELECT pg_stat_force_next_flush()")
        else:
            await asyncio.sleep(1.1)
            await connection.execute("SELECT 1")
            await asyncio.sleep(0.6)
