"""The listing of limits: whole, or page by page through the indexes."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.contract import LimitPlace, LimitStatus
from headgate.engine.rules.status import COUNTED_MOST, all_status, key_status, limits_page, overridden
from headgate.engine.sqlite.keyspace import LAST, Read, Span, by_text, just_after, spans_of
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step
from headgate.keys import Key

CAPS = ("queue:", "task:")


def limits(step: Step, name: str | None, after: LimitPlace | None, limit: int | None) -> list[LimitStatus]:
    """Limits and the keys of them that matter, in the order name, key, tenant."""
    return _all(step, name, after) if limit is None else _page(step, name, after, limit)


def _all(step: Step, name: str | None, after: LimitPlace | None) -> list[LimitStatus]:
    held = dict(step.execute(sql("held_counts")).fetchall())
    waiting = dict(step.execute(sql("waiting_counts")).fetchall())
    computed = [key for key, _, _ in step.execute(sql("all_computed")).fetchall()]
    return limits_page(all_status(step.book, held, waiting, name, computed), after, None)


def _page(step: Step, name: str | None, after: LimitPlace | None, limit: int) -> list[LimitStatus]:
    found: list[LimitStatus] = []
    for each in sorted(_names(step) if name is None else {name} & _names(step)):
        if len(found) >= limit:
            break
        if after is None or each >= after[0]:
            found += _of_one(step, each, after if after and each == after[0] else None, limit - len(found))
    return found


def _names(step: Step) -> set[str]:
    """Limits that are declared or overridden, and caps that were taken back while jobs hold or wait for them."""
    names = {*step.book.limits, *(scope[0] for scope in step.book.overrides)}
    for cap in CAPS:
        for read in _reads(step):
            names |= {Key.of(key).name for key in read(f"c0:{cap}", f"c0:{cap}{LAST}", -1)}
    return names


def _reads(step: Step) -> tuple[Read, Read, Read]:
    return step.holding, step.waiting, step.with_number


def _of_one(step: Step, name: str, after: LimitPlace | None, most: int) -> list[LimitStatus]:
    declared = step.book.limits.get(name)
    whole = Key(name, rate=declared is not None and declared.kind == "rate")
    rows: list[LimitStatus] = []
    if after is None:
        rows.append(_status(step, whole, spans_of(step.holding, name), spans_of(step.waiting, name)))
    place = (name, "") if after is None else (after[1], after[2])
    keys = {key for read in _reads(step) for key in by_text(read, name, place, most)}
    keys |= {key for key in overridden(step.book) if key.name == name and (key.text, key.tenant) > place}
    for key in sorted(keys - {whole}, key=lambda key: (key.text, key.tenant))[: most - len(rows)]:
        alone = [(key.ident, just_after(key.ident))]
        rows.append(_status(step, key, alone, alone))
    return rows


def _status(step: Step, key: Key, held: Iterable[Span], waiting: Iterable[Span]) -> LimitStatus:
    """A key, or a limit as such, with how many hold and wait for it; counts stop at a bound."""
    counts = _count(step, "held_between", held), _count(step, "waiting_between", waiting)
    return key_status(step.book, key, *counts, exact=max(counts) < COUNTED_MOST)


def _count(step: Step, statement: str, spans: Iterable[Span]) -> int:
    count = 0
    for first, below in spans:
        count += step.execute(sql(statement), (first, below, COUNTED_MOST - count)).get
        if count >= COUNTED_MOST:
            break
    return count
