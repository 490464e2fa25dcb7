"""What can be said about a single job: checked once, then stamped on every job enqueued with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, get_args

from headgate.clock import SECOND, duration_us, instant_us
from headgate.codec import encode_text
from headgate.errors import ConfigError
from headgate.headers import headers_text
from headgate.job import INTERNAL_QUEUE, MAX_PRIORITY
from headgate.keys import check_text

OnConflict = Literal["return", "raise", "replace"]
LEAST_RETENTION = 10 * SECOND
"""`result()` reads the record of an ended job: with `retention=0` it would find nothing."""


class JobOptions:
    """Options in the form that a NewJob takes them."""

    __slots__ = (
        "at", "delay", "headers", "id", "metadata", "on_conflict", "priority", "queue", "retention", "tenant",
        "timeout", "unique",
    )  # fmt: skip

    def __init__(self, queue: str, priority: int, timeout: int | None, retention: int | None) -> None:
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
        if "on_conflict" in said and "unique" not in said:
            raise ConfigError(f"on_conflict={made.on_conflict!r} belongs to unique=, which is missing")
        return made


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
}
