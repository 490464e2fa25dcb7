"""Cron expressions in a time zone, exact through changes of the clock.

Five fields (minute, hour, day of month, month, day of week), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
What happens when clocks change is what Debian's cron does:

- *A fixed time of day* (`30 2 * * *`: neither the minute nor the hour begins with a star). In a gap, where 02:30
  does not exist, it fires once, at the first minute after the gap. In an overlap, where 02:30 comes twice, it
  fires once, at the first of the two.
- *A wildcard* (`*/15 * * * *`, `0 * * * *`) follows the time that really passes: nothing in a gap, both passes of an
  overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headgate.clock import from_us, instant_us
from headgate.errors import ConfigError

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Cron:
    """One expression in one zone; refuses what cannot be read, and what would never fire."""

    __slots__ = ("expression", "zone")

    def __init__(self, expression: str, timezone: str | tzinfo | None = None) -> None:
        self.zone = _zone(timezone)
        self.expression = _five_fields(expression)
        self._check(expression)

    @property
    def text(self) -> str:
        """As people read it, in five fields."""
        return self.expression

    def after(self, t: int) -> Iterator[int]:
        """Every time at which it fires later than `t`, in order (microseconds)."""
        last = t
        for moment in CronSim(self.expression, from_us(t).astimezone(self.zone)):
            fires = instant_us(moment, "cron")
            # In the second pass of an overlap the local time says nothing about the pass: skip what is past.
            if fires > last:
                last = fires
                yield fires

    def _check(self, written: str) -> None:
        try:
            next(self.after(instant_us(datetime.now(UTC), "now")))
        except CronSimError as error:
            if self._never_comes():
                raise ConfigError(
                    f"cron={written!r} would never fire: none of its months has such a day"
                ) from None
            raise ConfigError(
                f"cron={written!r}: {error}; five fields are needed, e.g. '0 2 * * *'"
            ) from None
        except StopIteration:
            raise ConfigError(f"cron={written!r} would not fire within 50 years") from None

    def _never_comes(self) -> bool:
        """Whether it can be read, but for the months: the 30th of February."""
        minute, hour, day, month, weekday = self.expression.split()
        try:
            next(CronSim(f"{minute} {hour} {day} * {weekday}", datetime.now(UTC)))
            next(CronSim(f"{minute} {hour} * {month} {weekday}", datetime.now(UTC)))
        except (CronSimError, StopIteration):
            return False
        return True

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.zone})"


def _five_fields(expression: str) -> str:
    if not isinstance(expression, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"cron={expression!r}: a text is needed, e.g. '0 2 * * *'")
    fields = MACROS.get(expression.strip().lower(), expression).split()
    if len(fields) == 6:
        raise ConfigError(f"cron={expression!r} has six fields; seconds are not supported here, use every=")
    if len(fields) != 5:
        choice = ", ".join(MACROS)
        raise ConfigError(
            f"cron={expression!r} has {len(fields)} fields; five are needed "
            f"(minute hour day-of-month month weekday), or one of {choice}"
        )
    return " ".join(fields)


def _zone(timezone: str | tzinfo | None) -> tzinfo:
    match timezone:
        case None | "UTC":
            return UTC
        case tzinfo():
            return timezone
        case str():
            return _named(timezone)
        case _:
            raise ConfigError(f"timezone={timezone!r}: a name such as 'Europe/Berlin' or a tzinfo is needed")


def _named(timezone: str) -> tzinfo:
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"timezone={timezone!r} is not a known time zone; write e.g. 'Europe/Berlin'"
        ) from None
