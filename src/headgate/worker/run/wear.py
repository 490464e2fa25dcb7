"""When a worker process has done its share: it finishes what it runs and ends, so that a fresh one takes its place.

That bounds what a leak of memory can do. It is looked for about once a second, and only where a bound was set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headgate.errors import ConfigError
from headgate.worker.duties.duty import jittered
from headgate.worker.memory import memory_used

LOOK = 1.0
"""Seconds between two looks at the memory."""
MB = 1024**2


def check_memory(most: int) -> None:
    """Refuse a bound that a worker is above before its first job: it would be replaced again and again."""
    used = memory_used()
    if used is not None and used > most:
        raise ConfigError(
            f"max_memory={most}: this process takes {used // MB} MB before its first job; {most // MB} MB is too little"
        )


async def watch_memory(most: int, worn_out: Callable[[str], None]) -> None:
    """Tell when this process takes more than so many bytes."""
    while True:
        await asyncio.sleep(jittered(LOOK))
        used = memory_used()
        if used is not None and used > most:
            worn_out(f"it takes {used // MB} MB of memory, which is more than {most // MB} MB")
            return
