"""The options of `@app.task(…)`: which there are, and what is meant by one that there is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta, tzinfo
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, cast, get_args

from headgate.errors import ConfigError
from headgate.limits import DeclaredLimit
from headgate.periodic import Schedule, schedule
from headgate.retry import Retry

RunIn = Literal["thread", "process"]
"""Where a worker runs a function that is not async."""
PERIODIC = ("cron", "every", "timezone", "catch_up")
MEANT = {
    "retries": "retry=Retry(attempts=…)",
    "max_retries": "retry=Retry(attempts=…)",
    "max_attempts": "retry=Retry(attempts=…)",
    "autoretry_for": "retry=Retry(on=…)",
    "backoff": "retry=Retry(backoff=…)",
    "concurrency": "max_concurrent=",
    "rate_limit": "limits=[RateLimit(…, per=…)]",
    "time_limit": "timeout=",
    "soft_time_limit": "timeout=",
    "result_ttl": "retention=",
    "ttl": "retention=",
    "schedule": "cron= or every=",
    "interval": "every=",
    "queue_name": "queue=",
}
"""What other job queues call it, and what it is here."""
PER_JOB = frozenset(
    {
        "delay", "at", "tenant", "id", "unique", "on_conflict", "metadata", "eta", "countdown", "at_most",
        "unique_for", "share",
    }
)  # fmt: skip


class TaskOptions(TypedDict, total=False):
    """What can be said about a task; see the reference of `App.task`."""

    name: str | None
    queue: str | None
    max_concurrent: int | None
    priority: int | None
    retry: Retry | None
    timeout: float | timedelta | None
    retention: float | timedelta | None
    expires: float | timedelta | None
    limits: Sequence[DeclaredLimit] | None
    cron: str | None
    every: float | timedelta | None
    timezone: str | tzinfo | None
    catch_up: Literal["one", "none", "all"] | None
    run_in: RunIn | None


def check_known(given: Mapping[str, Any]) -> None:
    """Refuse options that do not exist: in silence they would do nothing."""
    known = list(TaskOptions.__annotations__)
    for name in given:
        if name not in known:
            raise ConfigError(f"task() has no option {name!r}; {_instead(name, known)}")


def _instead(name: str, known: list[str]) -> str:
    if name in MEANT:
        return f"write {MEANT[name]}"
    if name in PER_JOB:
        there = {"eta": "at", "countdown": "delay"}.get(name, name)
        return f"it differs from job to job: task.options({there}=…).enqueue(…)"
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}=?" if near else f"there are: {', '.join(known)}"


def check_limits(given: Any, what: str) -> tuple[DeclaredLimit, ...]:
    """Several limits; None stands for none."""
    if isinstance(given, DeclaredLimit):
        raise ConfigError(f"{what}: limits= takes a list; write limits=[{given!r}]")
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{what}: limits={given!r} is not a list of limits")
    return tuple(cast("Sequence[DeclaredLimit]", given))


def check_run_in(given: Any, name: str, *, is_async: bool) -> RunIn:
    """Where a function runs that is not async; nothing is said about one that is."""
    if given is None:
        return "thread"
    if given not in get_args(RunIn):
        raise ConfigError(f"task {name!r}: run_in={given!r}: 'thread' or 'process' is needed")
    if is_async:
        raise ConfigError(
            f"task {name!r} is async and runs on the worker's event loop; run_in={given!r} is for functions that are "
            "not"
        )
    return given


def schedule_of(given: Mapping[str, Any]) -> Schedule | None:
    """The schedule of a periodic task; None for one that is not."""
    said = {name: given[name] for name in PERIODIC if given.get(name) is not None}
    if "cron" in said or "every" in said:
        return schedule(**said)
    if "timezone" in said:
        raise ConfigError("timezone= belongs to cron=, which is missing")
    if "catch_up" in said:
        raise ConfigError(f"catch_up={said['catch_up']!r} belongs to cron= or every=, and both are missing")
    return None
