"""What all records of the contract have in common, and what an engine is opened with."""

from __future__ import annotations

import msgspec

from headgate.clock import SECOND

DAY = 24 * 3600 * SECOND


class Record(msgspec.Struct, frozen=True, gc=False):
    """A small frozen value. Never part of a cycle, so the garbage collector need not look at the thousands of them."""


class Settings(Record, frozen=True):
    """What an engine is opened with; the same for all processes of one deployment."""

    patience: int = 8
    reservation_ttl: int = 10 * SECOND
    keep_succeeded: int = DAY
    keep_failed: int = 14 * DAY
    keep_cancelled: int = 14 * DAY
    busy_timeout: int = 30 * SECOND
    timeout: int = 30 * SECOND
    """How long a verb may take before it raises EngineUnavailable; workers set a shorter one (deadline.py)."""
