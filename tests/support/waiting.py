"""Waiting for something to be so, never without a deadline: for tests that cannot wait on a signal."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 30.0
"""Seconds until a test gives up waiting; never reached when all is well."""


def eventually(
    condition: Callable[[], Any], what: str, patience: float = PATIENCE, every: float = 0.005
) -> Any:
    """Wait until something is so, asking `every` so many seconds; returns what it then is."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {patience} s for {what}"
        time.sleep(every)
    return value


async def until(condition: Callable[[], Any], what: str = "it to be so", patience: float = PATIENCE) -> Any:
    """The same while the event loop turns; the condition may be awaitable."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {patience} s for {what}"
        await asyncio.sleep(0.005)


async def turns(count: int = 1) -> None:
    """Let everything else on the event loop go so many steps on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def stays(condition: Callable[[], Any], what: str, seconds: float = 0.2) -> None:
    """Something remains so for a while: proof, as far as waiting proves it, that something does not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"not for {seconds} s: {what}"
        await asyncio.sleep(0.005)
    assert condition(), f"not for {seconds} s: {what}"
