"""Limits as they are declared, overridden and listed."""

from __future__ import annotations

from typing import Literal

from headgate.engine.contract.record import Record

LimitKind = Literal["concurrency", "rate", "floating"]
Algorithm = Literal["token_bucket", "leaky", "sliding_window"]


class Limit(Record, frozen=True):
    """A declared limit. `max` is the number at once, or the starts per `period`; None does not limit."""

    name: str
    kind: LimitKind
    max: int | None
    period: int = 0
    burst: int | None = None
    algorithm: Algorithm = "token_bucket"


class Override(Record, frozen=True):
    """An operator's word. It speaks for one key, one tenant's keys of a name, or a whole name.

    The most specific one wins: (name, value, tenant), (name, value), (name, tenant), (name).
    """

    name: str
    max: int | None
    value: str | None = None
    tenant: str | None = None
    by: str = ""
    at: int = 0
    why: str = ""
    until: int | None = None


class LimitStatus(Record, frozen=True):
    """A limit, or one key of it, as it stands. `key` is its text form; `declared` and `max` may differ by override
    or, for a floating limit, by what was computed.

    `held` and `waiting` of a limit as such are sums over its keys. In a page (`limit=`) a store stops counting once it
    has found a thousand of either; `exact` is False where it stopped, and the numbers are then lower bounds."""

    name: str
    key: str
    tenant: str
    kind: LimitKind
    max: int | None
    declared: int | None
    override: Override | None
    held: int
    waiting: int
    period: int = 0
    burst: int | None = None
    algorithm: Algorithm = "token_bucket"
    exact: bool = True


LimitPlace = tuple[str, str, str]
"""Name, key and tenant of a LimitStatus: its place in the listing of limits."""


class KeyInUse(Record, frozen=True):
    """A key of a floating limit that is held or waited for, and what was last computed for it."""

    key: str
    max: int | None
    held: int
    waiting: int
    computed_at: int | None
