"""Until when an operator's word holds."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.clock import duration_us, from_us, instant_us
from headgate.errors import ConfigError


def ends_at(until: datetime | timedelta | float | None, now: int) -> int | None:
    """A point in time, or a duration from now, as the store keeps it; None for a word that does not end by itself."""
    if until is None:
        return None
    lasts = isinstance(until, timedelta | int | float)
    ends = now + duration_us(until, "until=") if lasts else instant_us(until, "until=")
    if ends <= now:
        raise ConfigError(f"until={until!r} would end at once; it is {from_us(now).isoformat()} now")
    return ends
