"""How a worker stands, for probes: whether it lives, and whether it takes part in the work."""

from __future__ import annotations

import msgspec

STANDS_STILL = 5.0
"""Seconds without a turn of the event loop after which a worker no longer counts as live. The watchdog warns much
earlier; a probe that fails may end the process, and with it all that runs there."""


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it stands. A worker of a split store is ready if it is so for one of the parts."""

    worker: str
    """The id under which it is registered; empty when it is not."""
    live: bool
    """Whether its event loop turns."""
    ready: bool
    """Whether it holds its lease, exchanges get through, and it is not about to stop."""
    why: str = ""
    """Why it is not live or not ready."""
    stopping: bool
    blocked: float
    """Seconds for which its event loop has stood still; 0 as long as it turns."""
    last_exchange: float | None
    """Seconds since the store last answered an exchange; None before the first answer."""
    parts: int
    """How many parts of the store it works for."""
    parts_ready: int
    running: int
    concurrency: int
