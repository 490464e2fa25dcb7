"""Which numbers fit: Lua's are doubles, exact up to 2^53. What would be rounded is refused before it is stored."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.contract import Limit, Override, ShareWeight
from headgate.errors import ConfigError
from headgate.job import NewJob
from headgate.keys import Key

EARLIEST = -(10**15)
LATEST = 8 * 10**15
LONGEST = 4 * 10**15
"""Microseconds: times from 1938 to 2223, durations of up to 126 years."""


def check_jobs(jobs: Iterable[NewJob]) -> None:
    """Refuse due times and retentions that cannot be kept exactly."""
    for job in jobs:
        if job.at is not None and not EARLIEST <= job.at <= LATEST:
            raise ConfigError(f"job {job.id!r}: Redis keeps due times between 1938 and 2223")
        longest = max(
            job.delay, job.retention or 0, job.start_within or 0, job.at_most or 0, job.unique_for or 0
        )
        if longest > LONGEST:
            raise ConfigError(f"job {job.id!r}: Redis keeps delays and retentions of up to 126 years")
        if job.start_by is not None and not EARLIEST <= job.start_by <= LATEST:
            raise ConfigError(f"job {job.id!r}: Redis keeps times between 1938 and 2223")
        for use in job.uses:
            check_number(Key.of(use.key).name, max(use.units, use.number or 0))


def check_limits(limits: Iterable[Limit]) -> None:
    """Refuse rates whose arithmetic would leave the exact range."""
    for limit in limits:
        if limit.period * max(limit.burst or 1, 1) > LONGEST:
            raise ConfigError(
                f"limit {limit.name!r}: its period times its burst is more than 126 years, which Redis cannot count "
                "exactly in microseconds; use a shorter period or a smaller burst"
            )
        check_number(limit.name, limit.max)


def check_override(override: Override) -> None:
    """Refuse times and numbers of operators that cannot be kept exactly."""
    if override.until is not None and not EARLIEST <= override.until <= LATEST:
        raise ConfigError(
            f"override of {override.name!r}: Redis keeps times between 1938 and 2223; leave until out for one "
            "that does not run out"
        )
    check_number(override.name, override.max)


def check_weight(weight: ShareWeight) -> None:
    """Refuse times of operators that cannot be kept exactly."""
    if weight.until is not None and not EARLIEST <= weight.until <= LATEST:
        raise ConfigError(f"weight of share {weight.share!r}: Redis keeps times between 1938 and 2223")


def check_number(name: str, number: int | None) -> None:
    """Refuse a number in force that cannot be counted exactly."""
    if (number or 0) > LONGEST:
        raise ConfigError(
            f"limit {name!r}: {number} is more than Redis can count exactly; None lifts the limit"
        )
