"""Time inside Headgate: whole microseconds since 1970 (UTC), read from the store, or handed in by a test."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from headgate.errors import ConfigError

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_us() -> int:
    """The clock of this machine, in microseconds."""
    return time.time_ns() // 1000


def duration_us(value: float | timedelta, what: str) -> int:
    """A duration given in seconds or as a timedelta, in microseconds; negative ones are refused."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e11:
        raise ConfigError(f"{what} must be a number of seconds >= 0 or a timedelta, not {value!r}")
    return round(seconds * SECOND)


def instant_us(value: datetime, what: str) -> int:
    """A point in time in microseconds; naive datetimes are refused, since their zone is unknown."""
    if not isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what} must be a datetime with a time zone, not {value!r}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise ConfigError(f"{what} has no time zone: {value!r}; use e.g. datetime.now(UTC) or add tzinfo=")
    return (value.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


def span(seconds: float) -> str:
    """A length of time for people, with one unit: `0.5 s`, `90 s`, `5 min`, `3 h`, `12 d`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{round(seconds, 1 if seconds < 10 else None):g} s"


def from_us(value: int) -> datetime:
    """Microseconds as an aware datetime in UTC."""
    seconds, rest = divmod(value, SECOND)
    return EPOCH + timedelta(0, seconds, rest)  # three times as fast as timedelta(microseconds=value)
