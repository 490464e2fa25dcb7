"""What tasks say about their jobs, and what an app or a queue says for those that do not.

A task's own word counts before its queue's, a queue's before the app's, and that before Headgate's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from headgate.app.options import (
    NEVER,
    JobOptions,
    check_expires,
    check_priority,
    check_queue,
    check_retention,
    check_timeout,
)
from headgate.errors import ConfigError
from headgate.job import DEFAULT_PRIORITY
from headgate.retry import LOST_ONLY, Retry

T = TypeVar("T")

DEFAULT_QUEUE = "default"
NO_TIMEOUT = 0


class TaskDefaults:
    """What holds for tasks that say nothing else; None says nothing.

    For all tasks of an app (`App(defaults=…)`), or for those of a queue (`app.queue(name, defaults=…)`). A task that is
    to have no timeout in spite of them says `timeout=math.inf`, one whose jobs may start at any time
    `expires=math.inf`, one without a retry `retry=Retry(attempts=1)`.
    """

    __slots__ = ("expires", "priority", "queue", "retention", "retry", "timeout")

    def __init__(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        retention: float | timedelta | None = None,
        expires: float | timedelta | None = None,
    ) -> None:
        self.queue = None if queue is None else check_queue(queue)
        self.priority = None if priority is None else check_priority(priority)
        self.retry = check_retry(retry)
        self.timeout = None if timeout is None else _timeout(timeout)
        self.retention = None if retention is None else check_retention(retention)
        self.expires = None if expires is None else check_expires(expires) or NEVER

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskDefaults) and all(
            getattr(self, name) == getattr(other, name) for name in TaskDefaults.__slots__
        )

    def __hash__(self) -> int:
        return hash((self.queue, self.priority, self.timeout, self.retention, self.expires))

    def __repr__(self) -> str:
        said = {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}
        return f"TaskDefaults({', '.join(f'{name}={value!r}' for name, value in said.items())})"


def check_retry(retry: Any) -> Retry | None:
    """A policy, or nothing."""
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: a Retry is needed, as in Retry(attempts=5)")
    return retry


def _timeout(value: float | timedelta) -> int:
    return NO_TIMEOUT if value == math.inf else check_timeout(value)


NOTHING = TaskDefaults()


def resolved(
    own: TaskDefaults, queues: Mapping[str, TaskDefaults], app: TaskDefaults
) -> tuple[JobOptions, Retry]:
    """What counts for one task: the options of its jobs, and its policy."""
    queue = _first(own.queue, app.queue, otherwise=DEFAULT_QUEUE)
    levels = (own, queues.get(queue, NOTHING), app)
    timeout = _first(*(level.timeout for level in levels), otherwise=NO_TIMEOUT)
    options = JobOptions(
        queue,
        _first(*(level.priority for level in levels), otherwise=DEFAULT_PRIORITY),
        None if timeout == NO_TIMEOUT else timeout,
        _first(*(level.retention for level in levels), otherwise=None),
        _first(*(level.expires for level in levels), otherwise=NEVER) or None,
    )
    return options, _first(*(level.retry for level in levels), otherwise=LOST_ONLY)


def _first(*said: T | None, otherwise: T) -> T:
    return next((one for one in said if one is not None), otherwise)


def check_defaults(given: Any, what: str) -> TaskDefaults:
    """A TaskDefaults; None stands for one that says nothing."""
    if given is None:
        return NOTHING
    if not isinstance(given, TaskDefaults):
        raise ConfigError(f"{what}{given!r}: a TaskDefaults is needed, as in TaskDefaults(timeout=30)")
    return given
