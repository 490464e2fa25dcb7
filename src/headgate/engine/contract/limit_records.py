"""Limits as they are declared, overridden and listed."""

from __future__ import annotations

from typing import Literal

from headgate.engine.contract.record import Record

LimitKind = Literal["concurrency", "rate", "floating"]
Algorithm = Literal["token_bucket", "leaky", "sliding_window"]
WhenFull = Literal["wait", "drop", "replace", "cancel"]
Overflow = Literal["refuse", "drop_oldest", "drop_newest"]


class Limit(Record, frozen=True):
    """A declared limit. `max` is the number at once, or the starts per `period`; None does not limit.

    `sized` says that jobs may take more than one slot, `estimated` that attempts say afterwards what they spent of a
    rate, `adaptive` that a number learnt for a key counts, `per_key` that jobs bring numbers for their keys.
    `by_job` that the declaration comes with single jobs, which bring its number for their own keys: it counts for the
    others only where none is declared (rules/in_force.py, `declared_anew`); no store keeps it.
    `when_full` is what becomes of a newcomer that finds no slot (rule 19), `max_waiting` how many may wait on one key
    (of a limit `queue:NAME`: how many may be ready or waiting in the queue), `on_overflow` what happens beyond that.
    """

    name: str
    kind: LimitKind
    max: int | None
    period: int = 0
    burst: int | None = None
    algorithm: Algorithm = "token_bucket"
    sized: bool = False
    estimated: bool = False
    adaptive: bool = False
    per_key: bool = False
    when_full: WhenFull = "wait"
    max_waiting: int | None = None
    on_overflow: Overflow = "refuse"
    by_job: bool = False


class KeyNumbers(Record, frozen=True):
    """What is special about the number of one key.

    `computed` is what a floating limit's function or an adaptive limit came to, when, and for which `reason`. `brought`
    is what the newest job of the key brought; `brought_before` another number that jobs of the key brought while it was
    in use. `at` is when any of this last changed.
    """

    at: int
    computed: int | None = None
    computed_at: int | None = None
    reason: str | None = None
    brought: int | None = None
    brought_before: int | None = None


class ShareWeight(Record, frozen=True):
    """A fair share's weight, by an operator's word until `until`, or as declared in code."""

    share: str
    weight: float
    by: str = ""
    at: int = 0
    why: str = ""
    until: int | None = None


class ShareStatus(Record, frozen=True):
    """A fair share as it stands: the weight in force, what code declared, what an operator said, and how many of its
    jobs are ready or waiting, over all queues."""

    share: str
    weight: float
    declared: float | None
    override: ShareWeight | None
    pending: int


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
    has found a thousand of either; `exact` is False where it stopped, and the numbers are then lower bounds. `held`
    counts units. Of a rate key, `tokens` are those that are there now (below zero: a debt) and `next_at` is when the
    next one will be. `brought`, `brought_before` and `reason` are those of KeyNumbers; `opens_at` is until when a key
    that a service has throttled is closed. `when_full`, `max_waiting` and `on_overflow` are as declared."""

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
    tokens: int | None = None
    next_at: int | None = None
    brought: int | None = None
    brought_before: int | None = None
    reason: str | None = None
    opens_at: int | None = None
    when_full: WhenFull = "wait"
    max_waiting: int | None = None
    on_overflow: Overflow = "refuse"


LimitPlace = tuple[str, str, str]
"""Name, key and tenant of a LimitStatus: its place in the listing of limits."""


class KeyInUse(Record, frozen=True):
    """A key of a floating limit that is held or waited for, and what was last computed for it."""

    key: str
    max: int | None
    held: int
    waiting: int
    computed_at: int | None
