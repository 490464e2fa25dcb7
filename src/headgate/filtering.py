"""Which jobs: the one filter that looking and steering share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from headgate.engine.contract import Engine, Filter
from headgate.errors import ConfigError
from headgate.hub import Hub
from headgate.job import JobState
from headgate.keys import Key, parse

States = JobState | str | Iterable[JobState | str]


class JobFilter(TypedDict, total=False):
    """What is left out, or None, does not matter. `limit` is a key as text (`customer=42`): who waits on it."""

    state: States | None
    queue: str | None
    task: str | None
    tenant: str | None
    limit: str | None
    unique: str | None
    ids: Sequence[str] | None


async def engine_filter(hub: Hub, engine: Engine, given: Mapping[str, Any]) -> Filter:
    """A filter as the engine takes it."""
    for name in given:
        if name not in JobFilter.__annotations__:
            raise ConfigError(
                f"there is no filter {name!r}; there are: {', '.join(JobFilter.__annotations__)}"
            )
    limit, ids = given.get("limit"), given.get("ids")
    return Filter(
        states=_states(given.get("state")),
        queue=given.get("queue"),
        task=given.get("task"),
        tenant=given.get("tenant"),
        waiting_on=None if limit is None else await _ident(hub, engine, limit, given.get("tenant")),
        ids=None if ids is None else tuple(ids),
        unique=given.get("unique"),
    )


def _states(given: States | None) -> tuple[JobState, ...] | None:
    if given is None:
        return None
    try:
        return tuple(JobState(one) for one in ([given] if isinstance(given, str) else given))
    except ValueError:
        raise ConfigError(f"state={given!r}: the states are {', '.join(JobState)}") from None


async def _ident(hub: Hub, engine: Engine, text: str, tenant: str | None) -> str:
    """The ident of a key given as text; its kind is known here or asked of the store."""
    name, value = parse(text)
    kind = hub.limits.kind(name)
    if kind is None:
        known = await engine.limits(name)
        kind = known[0].kind if known else "concurrency"
    return Key(name, value, tenant or "", kind == "rate").ident
