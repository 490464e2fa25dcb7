"""Which jobs: the one filter that looking and steering share.

What is left out, or None, does not matter; an empty list matches nothing. A value that no job can have (an empty text,
a number where a text is needed) is refused: taken as "does not matter" it would match every job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, cast

from headgate.clock import duration_us, instant_us
from headgate.engine.contract import Filter
from headgate.errors import ConfigError
from headgate.job import JobState
from headgate.keys import check_text, parse

StateName = Literal["scheduled", "ready", "waiting", "running", "succeeded", "failed", "cancelled"]
Moment = datetime | timedelta | float | str
States = JobState | StateName | Iterable[JobState | StateName]


class JobFilter(TypedDict, total=False):
    """What is left out, or None, does not matter; an empty list matches nothing.

    `limit` is a key as text, `customer=42`: the jobs that wait on it, of any tenant or on a shared key; `customer`
    alone: those that wait on any key of the limit. `error` is a text in the first line of the job's error. `since` and
    `until` choose ended jobs by when they ended, the latter exclusive: a point in time (also as ISO 8601 text), or how
    long ago as seconds or timedelta.
    """

    state: States | None
    queue: str | None
    task: str | None
    tenant: str | None
    limit: str | None
    unique: str | None
    ids: Iterable[str] | None
    error: str | None
    since: Moment | None
    until: Moment | None


def says_nothing(given: Mapping[str, Any]) -> bool:
    """Whether a filter leaves everything open, so that it matches every job."""
    return all(value is None for value in given.values())


def counts_back(given: Mapping[str, Any]) -> bool:
    """Whether a filter says how long ago something was, so that the store's clock is needed."""
    return any(_is_span(given.get(name)) for name in ("since", "until"))


def engine_filter(given: Mapping[str, Any], now: int = 0) -> Filter:
    """A filter as the engine takes it; `now` is what it counts back from."""
    for name in given:
        if name not in JobFilter.__annotations__:
            raise ConfigError(
                f"there is no filter {name!r}; there are: {', '.join(JobFilter.__annotations__)}"
            )
    limit = given.get("limit")
    if limit is not None:
        parse(limit)
    return Filter(
        states=_states(given.get("state")),
        queue=_text(given, "queue"),
        task=_text(given, "task"),
        tenant=_text(given, "tenant"),
        waiting_on=limit,
        ids=_ids(given.get("ids")),
        unique=_text(given, "unique"),
        error=_error(given.get("error")),
        ended_since=_moment(given, "since", now),
        ended_until=_moment(given, "until", now),
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if name == "tenant" and value == "":
        raise ConfigError(
            "tenant='' names no tenant; leave it out to mean the jobs of all tenants and of none"
        )
    return None if value is None else check_text(value, f"{name}=")


def _states(given: Any) -> tuple[JobState, ...] | None:
    if given is None:
        return None
    try:
        return tuple(JobState(one) for one in _several(given))
    except (ValueError, TypeError):
        raise ConfigError(f"state={given!r}: the states are {', '.join(JobState)}") from None


def _ids(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    try:
        return tuple(check_text(one, "job id") for one in _several(given))
    except TypeError:
        raise ConfigError(f"ids={given!r}: a list of job ids is needed") from None


def _several(given: Any) -> Iterable[Any]:
    """A single text stands for a list of one."""
    return [given] if isinstance(given, str) else iter(cast("Iterable[Any]", given))


def _error(given: Any) -> str | None:
    """A text that may be longer than a name."""
    if given is None:
        return None
    if not isinstance(given, str) or not given or "\n" in given:
        raise ConfigError(f"error={given!r}: a text is needed that may stand in the first line of an error")
    return given


def _moment(given: Mapping[str, Any], name: str, now: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if _is_span(value):
        return now - duration_us(value, f"{name}=")
    return instant_us(_read(value, name) if isinstance(value, str) else value, f"{name}=")


def _is_span(value: Any) -> bool:
    return isinstance(value, timedelta | int | float)


def _read(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r}: write a time such as 2030-01-31T08:00:00Z") from None
