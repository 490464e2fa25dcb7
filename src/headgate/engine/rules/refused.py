"""What a worker is told whose message is refused whole."""

from __future__ import annotations

from headgate.errors import LeaseLost, StaleMessage


def lapsed(worker: str) -> LeaseLost:
    """The worker has no lease."""
    return LeaseLost(f"the lease of worker {worker!r} has lapsed; what it ran is no longer its own")


def stale(worker: str, number: int, last: int) -> StaleMessage:
    """A later message of the worker took effect before this one arrived (rule 13)."""
    return StaleMessage(
        f"message {number} of worker {worker!r} came after its message {last}; it changed nothing"
    )
