"""Empty SQLite stores: made once per process, and copied for each test, which takes a quarter of the time."""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from headgate.engine.sqlite import SqliteEngine


def put_empty_store(path: Path) -> None:
    """The file of a store that an engine has made and closed."""
    path.write_bytes(_empty_store())


@cache
def _empty_store() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "jobs.db"
        with ThreadPoolExecutor(1) as elsewhere:  # the first to ask may be a loop that runs
            elsewhere.submit(asyncio.run, _make(path)).result()
        return path.read_bytes()


async def _make(path: Path) -> None:
    engine = SqliteEngine(path)
    await engine.open()
    await engine.close()
