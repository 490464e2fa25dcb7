"""How limits stand, put together from the rule book and what a store counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from headgate.engine.contract import Limit, LimitPlace, LimitStatus
from headgate.engine.rules.admission import Rule
from headgate.engine.rules.in_force import RuleBook
from headgate.keys import Key
from headgate.rates import Meter, Pace

COUNTED_MOST = 1000
"""How many holders or waiters of a limit's keys a page counts at least before it may stop (LimitStatus.exact)."""


def key_status(book: RuleBook, key: Key, held: int, waiting: int, exact: bool = True) -> LimitStatus:
    """One key (or, for a bare name, the limit as such)."""
    limit = book.limits.get(key.name) or Limit(key.name, "rate" if key.rate else "concurrency", None)
    own = book.own_numbers(key, limit)
    gate = book.gates.get(key.ident)
    return LimitStatus(
        name=key.name,
        key=key.text,
        tenant=key.tenant,
        kind=limit.kind,
        max=book.number(key),
        declared=limit.max,
        override=book.override(key),
        held=held,
        waiting=waiting,
        period=limit.period,
        burst=limit.burst,
        algorithm=limit.algorithm,
        exact=exact,
        brought=own.brought,
        brought_before=own.brought_before,
        reason=own.reason,
        opens_at=None if gate is None else gate.opens_at,
        when_full=limit.when_full,
        max_waiting=limit.max_waiting,
        on_overflow=limit.on_overflow,
    )


def with_tokens(status: LimitStatus, rule: Rule, meter: Callable[[], Meter], now: int) -> LimitStatus:
    """The same with the tokens that a rate key has now; below zero a debt."""
    if not isinstance(rule, Pace) or rule.limit is None:
        return status
    if rule.limit == 0:
        return msgspec.structs.replace(status, tokens=0)
    found = meter()
    tokens = found.free(rule, now) - found.debt(rule, now)
    next_at = found.when(rule, max(tokens, 0) + 1, now)
    return msgspec.structs.replace(status, tokens=tokens, next_at=next_at)


def all_status(
    book: RuleBook,
    held: Mapping[str, int],
    waiting: Mapping[str, int],
    name: str | None,
    computed: Iterable[str] = (),
) -> list[LimitStatus]:
    """Each limit with the sums over its keys, then its keys that are held, waited for, overridden or computed: in the
    book, or as given."""
    keys = {Key.of(ident) for ident in (*held, *waiting, *book.numbers, *book.gates, *computed)} | set(
        overridden(book)
    )
    names = {key.name for key in keys} | set(book.limits) | {scope[0] for scope in book.overrides}
    rows: list[LimitStatus] = []
    for each in sorted(names if name is None else names & {name}):
        mine = sorted(
            (key for key in keys if key.name == each), key=lambda key: (key.rate, key.text, key.tenant)
        )
        whole = Key(each, rate=(limit := book.limits.get(each)) is not None and limit.kind == "rate")
        rows.append(key_status(book, whole, _total(mine, held), _total(mine, waiting)))
        rows += [
            key_status(book, key, held.get(key.ident, 0), waiting.get(key.ident, 0))
            for key in mine
            if key != whole
        ]
    return rows


def _total(keys: Iterable[Key], counts: Mapping[str, int]) -> int:
    return sum(counts.get(key.ident, 0) for key in keys)


def overridden(book: RuleBook) -> Iterable[Key]:
    """The keys that operators have spoken for, whether they are in use or not."""
    for name, value, tenant in book.overrides:
        limit = book.limits.get(name)
        if value is not None or tenant is not None:
            yield Key(name, value, tenant or "", limit is not None and limit.kind == "rate")


def limits_page(
    rows: Sequence[LimitStatus], after: LimitPlace | None, limit: int | None
) -> list[LimitStatus]:
    """The part of the whole listing that a caller asked for."""
    rest = rows if after is None else [row for row in rows if place(row) > after]
    return list(rest if limit is None else rest[:limit])


def bounded(row: LimitStatus) -> LimitStatus:
    """A record of a page, whose counts stop at COUNTED_MOST."""
    if max(row.held, row.waiting) < COUNTED_MOST:
        return row
    counts = {"held": min(row.held, COUNTED_MOST), "waiting": min(row.waiting, COUNTED_MOST)}
    return msgspec.structs.replace(row, **counts, exact=False)


def place(row: LimitStatus) -> LimitPlace:
    """Where a record stands in the listing. A limit stands before its keys, since its name begins their text."""
    return row.name, row.key, row.tenant
