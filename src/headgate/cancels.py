"""Cancellations that must not get lost.

What is cancelled while its connection breaks may end with the broken connection's error instead: `async with
transaction` raises it when it cannot roll back. A caller that tries again after such an error would never end. So the
cancellations that a task was asked for are counted, and heeded whatever was raised in their place.
"""

from __future__ import annotations

import asyncio


def asked() -> int:
    """How many cancellations the current task was asked for; those that a timeout took back do not count."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def heed(before: int = 0) -> None:
    """Raise CancelledError if the current task was asked to end more often than `before`."""
    if asked() > before:
        raise asyncio.CancelledError
