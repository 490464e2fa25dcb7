"""Which jobs: the filter of `App.jobs`, behind a question mark and in a body."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from headgate.app.filters import JobFilter, StateName
from headgate.web.route import Query


class FilterQuery(Query, frozen=True):
    """Which jobs; what is left out does not matter. `limit` is a key that they wait on, as in customer=42, or a limit's
    name. `error` is a text in the first line of the job's error. `since` and `until` say when jobs ended: a time in ISO
    8601, or so many seconds ago."""

    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    limit: str | None = None
    unique: str | None = None
    id: tuple[str, ...] | None = None
    error: str | None = None
    since: str | None = None
    until: str | None = None


class StateQuery(FilterQuery, frozen=True):
    """The same, with states."""

    state: tuple[StateName, ...] | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which jobs; what is left out does not matter. As behind the question mark of the list of jobs; `since` and
    `until` are times in ISO 8601, or how many seconds ago."""

    state: StateName | tuple[StateName, ...] | None = None
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    limit: str | None = None
    unique: str | None = None
    ids: tuple[str, ...] | None = None
    error: str | None = None
    since: str | float | None = None
    until: str | float | None = None

    def given(self) -> JobFilter:
        """The filter as an app takes it."""
        return cast("JobFilter", msgspec.structs.asdict(self))


def filter_of(query: FilterQuery) -> JobFilter:
    """The filter of a query."""
    given: dict[str, Any] = {
        name: getattr(query, name) for name in ("queue", "task", "tenant", "limit", "unique", "error")
    }
    given |= {"ids": query.id, "since": moment(query.since), "until": moment(query.until)}
    if isinstance(query, StateQuery):
        given["state"] = query.state
    return cast("JobFilter", given)


def moment(text: str | None) -> str | float | None:
    """A time, or so many seconds ago."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
