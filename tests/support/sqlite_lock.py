"""Another process that takes and keeps the write lock of a SQLite file."""

from __future__ import annotations

import asyncio

from tests.support.child import Child

HOLD = """
import apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(10_000)
while True:
    seconds = hear()
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    if seconds is None:
        hear()
    else:
        time.sleep(seconds)
    connection.execute("ROLLBACK")
    say("let go")
"""


async def hold(child: Child, seconds: float | None) -> None:
    """The other process takes the write lock."""
    child.tell(seconds)
    assert await asyncio.to_thread(child.hear) == "held"
