"""Durations and instants as people type and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headgate.clock import span
from headgate.errors import ConfigError

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def duration(text: str, what: str) -> float:
    """Seconds from `30`, `1.5s`, `5m`, `2h` or `1d`."""
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :] or "s"
    try:
        return float(number) * UNITS[unit]
    except (ValueError, KeyError):
        raise ConfigError(f"{what} {text!r}: write a duration such as 30, 1.5s, 5m, 2h or 1d") from None


def instant(text: str, what: str) -> datetime:
    """A point in time from ISO 8601 text with a time zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{what} {text!r}: write a time such as 2030-01-31T08:00:00+00:00") from None
    if at.tzinfo is None:
        raise ConfigError(f"{what} {text!r} has no time zone; write e.g. 2030-01-31T08:00:00Z")
    return at


def until(text: str, what: str) -> datetime | timedelta:
    """Either of the two."""
    if text[:4].isdigit() and "-" in text:
        return instant(text, what)
    return timedelta(seconds=duration(text, what))


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """`12 s ago`, `in 3 min`, or nothing."""
    if at is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"
