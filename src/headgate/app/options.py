"""What can be said about a single job: checked once, then stamped on every job enqueued with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

from headgate.app.sharing import check_share
from headgate.clock import SECOND, duration_us, instant_us
from headgate.codec import encode_text
from headgate.errors import ConfigError
from headgate.headers import headers_text
from headgate.job import INTERNAL_QUEUE, MAX_PRIORITY, OnConflict
from headgate.keys import check_text

NEVER = 0
"""What stands for a time that does not come, where None says nothing."""
LEAST_RETENTION = 10 * SECOND
"""`result()` reads the record of an ended job: with `retention=0` it would find nothing."""


class JobOptions:
    """Options in the form that a NewJob takes them."""

    __slots__ = (
        "at", "at_most", "delay", "expires", "headers", "id", "metadata", "on_conflict", "priority", "queue",
        "retention", "share", "start_by", "tenant", "timeout", "unique", "unique_for",
    )  # fmt: skip

    def __init__(
        self,
        queue: str,
        priority: int,
        timeout: int | None,
        retention: int | None,
        expires: int | None = None,
    ) -> None:
        self.id: str | None = None
        self.queue = queue
        self.tenant = ""
        self.priority = priority
        self.delay = 0
        self.at: int | None = None
        self.timeout = timeout
        self.unique: str | None = None
        self.on_conflict: OnConflict = "return"
        self.metadata: str | None = None
        self.retention = retention
        self.headers: str | None = None
        self.expires = expires
        """How long after its due time a job may start."""
        self.start_by: int | None = None
        self.at_most: int | None = None
        self.unique_for: int | None = None
        self.share: str | None = None

    @property
    def latest_start(self) -> tuple[int | None, int | None]:
        """Until when a job must have started: within a time from its enqueue, or by a point in time."""
        if self.start_by is not None or self.expires is None:
            return None, self.start_by
        return (self.delay + self.expires, None) if self.at is None else (None, self.at + self.expires)

    def but(self, given: Mapping[str, Any], payload_limit: int) -> JobOptions:
        """A copy with what was given; None means not given."""
        made = JobOptions(self.queue, self.priority, self.timeout, self.retention)
        for name in JobOptions.__slots__:
            setattr(made, name, getattr(self, name))
        said = {name: value for name, value in given.items() if value is not None}
        if "delay" in said and "at" in said:
            raise ConfigError("delay= and at= exclude each other: give one of them")
        for name, value in said.items():
            setattr(made, name, _CHECKS[name](value, payload_limit))
        if "expires" in said:
            made.start_by, made.expires = _expiry(said["expires"])
        made._check_together(said)
        return made

    def _check_together(self, said: Mapping[str, Any]) -> None:
        """What one option means for another one."""
        if "on_conflict" in said and self.unique is None:
            raise ConfigError(f"on_conflict={self.on_conflict!r} belongs to unique=, which is missing")
        if self.unique_for is not None and self.unique is None:
            raise ConfigError("unique_for= belongs to unique=, which is missing")
        if self.unique_for is not None and self.on_conflict == "update":
            raise ConfigError(
                "unique_for= keeps the key after the start, on_conflict='update' gives it free then: give one of them"
            )
        if self.at_most is not None and self.on_conflict != "update":
            raise ConfigError("at_most= bounds what on_conflict='update' puts off, which is missing")
        if self.at_most is not None and self.at_most < self.delay:
            raise ConfigError("at_most= is shorter than delay=: it bounds the time from the first enqueue on")
        if self.start_by is not None and self.at is not None and self.start_by <= self.at:
            raise ConfigError("expires= is not later than at=: the job would never start")


def check_priority(value: Any) -> int:
    """0 runs first, 99 last."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
        raise ConfigError(f"priority={value!r}: a whole number from 0 (first) to {MAX_PRIORITY} is needed")
    return value


def check_queue(value: Any) -> str:
    """Any text but the name that Headgate keeps for its own jobs."""
    if value == INTERNAL_QUEUE:
        raise ConfigError(f"queue {value!r} is reserved for Headgate's own jobs; choose another name")
    return check_text(value, "queue")


def check_timeout(value: float | timedelta) -> int:
    """Longer than nothing."""
    timeout = duration_us(value, "timeout=")
    if timeout == 0:
        raise ConfigError("timeout=0 would end every attempt at once; leave it out for no timeout")
    return timeout


def check_expires(value: float | timedelta) -> int | None:
    """A time after a job's due time; infinity means that it may start at any time."""
    if value == math.inf:
        return None
    if isinstance(value, datetime):
        raise ConfigError(
            f"expires={value!r}: a task says it as a duration; a point in time is for options()"
        )
    expires = duration_us(value, "expires=")
    if expires == 0:
        raise ConfigError("expires=0 would never let a job start; leave it out for a job that may wait")
    return expires


def _expiry(value: Any) -> tuple[int | None, int | None]:
    """A point in time, or a time after the due time."""
    if isinstance(value, datetime):
        return instant_us(value, "expires="), None
    return None, check_expires(value)


def _positive(what: str) -> Callable[[Any, int], int]:
    def check(value: Any, _: int) -> int:
        found = duration_us(value, what)
        if found == 0:
            raise ConfigError(f"{what}0 would do nothing; leave it out")
        return found

    return check


def check_retention(value: float | timedelta) -> int:
    """How long ended jobs are kept; long enough, in any case, for those who wait for the result to see it."""
    return max(duration_us(value, "retention="), LEAST_RETENTION)


def _check_metadata(value: Any, payload_limit: int) -> str:
    if not isinstance(value, Mapping):
        raise ConfigError(f"metadata= must be a mapping such as {{'source': 'web'}}, not {value!r}")
    return encode_text(value, "metadata", payload_limit)


def _check_conflict(value: Any) -> OnConflict:
    if value not in get_args(OnConflict):
        raise ConfigError(f"on_conflict={value!r}: one of {', '.join(get_args(OnConflict))} is needed")
    return value


def _text(what: str) -> Callable[[Any, int], str]:
    return lambda value, _: check_text(value, what)


def _duration(what: str) -> Callable[[Any, int], int]:
    return lambda value, _: duration_us(value, what)


_CHECKS: dict[str, Callable[[Any, int], Any]] = {
    "priority": lambda value, _: check_priority(value),
    "delay": _duration("delay="),
    "at": lambda value, _: instant_us(value, "at="),
    "tenant": _text("tenant"),
    "id": _text("job id"),
    "unique": _text("unique="),
    "on_conflict": lambda value, _: _check_conflict(value),
    "metadata": _check_metadata,
    "queue": lambda value, _: check_queue(value),
    "timeout": lambda value, _: check_timeout(value),
    "headers": lambda value, _: headers_text(value),
    "retention": lambda value, _: check_retention(value),
    "expires": lambda value, _: None,
    "at_most": _positive("at_most="),
    "unique_for": _positive("unique_for="),
    "share": lambda value, _: check_share(value),
}
