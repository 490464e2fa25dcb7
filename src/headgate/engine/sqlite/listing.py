"""The listing of limits: whole, or page by page through the indexes."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.contract import LimitPlace, LimitStatus
from headgate.engine.rules.status import (
    COUNTED_MOST,
    all_status,
    key_status,
    limits_page,
    overridden,
    with_tokens,
)
from headgate.engine.sqlite.key_ranges import LAST, Read, Span, by_text, just_after, spans_of
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction
from headgate.keys import Key

CAPS = ("queue:", "task:")


def limits(
    transaction: Transaction, name: str | None, after: LimitPlace | None, limit: int | None
) -> list[LimitStatus]:
    """Limits and the keys of them that matter, in the order name, key, tenant."""
    rows = _all(transaction, name, after) if limit is None else _page(transaction, name, after, limit)
    return [_with_tokens(transaction, row) for row in rows]


def _with_tokens(transaction: Transaction, row: LimitStatus) -> LimitStatus:
    if row.kind != "rate":
        return row
    value = row.key[len(row.name) + 1 :] if row.key != row.name else None
    ident = Key(row.name, value, row.tenant, rate=True).ident
    ledger = transaction.ledger
    return with_tokens(row, ledger.rule(ident), lambda: ledger.meter(ident), transaction.now)


def _all(transaction: Transaction, name: str | None, after: LimitPlace | None) -> list[LimitStatus]:
    held = dict(transaction.execute(sql("held_counts")).fetchall())
    waiting = dict(transaction.execute(sql("waiting_counts")).fetchall())
    numbered = [key for (key,) in transaction.execute(sql("all_numbers")).fetchall()]
    return limits_page(all_status(transaction.book, held, waiting, name, numbered), after, None)


def _page(
    transaction: Transaction, name: str | None, after: LimitPlace | None, limit: int
) -> list[LimitStatus]:
    found: list[LimitStatus] = []
    for each in sorted(_names(transaction) if name is None else {name} & _names(transaction)):
        if len(found) >= limit:
            break
        if after is None or each >= after[0]:
            found += _of_one(
                transaction, each, after if after and each == after[0] else None, limit - len(found)
            )
    return found


def _names(transaction: Transaction) -> set[str]:
    """Limits that are declared or overridden, and caps that were taken back while jobs hold or wait for them."""
    names = {*transaction.book.limits, *(scope[0] for scope in transaction.book.overrides)}
    for cap in CAPS:
        for read in _reads(transaction):
            names |= {Key.of(key).name for key in read(f"c0:{cap}", f"c0:{cap}{LAST}", -1)}
    return names


def _reads(transaction: Transaction) -> tuple[Read, Read, Read]:
    return transaction.holding, transaction.waiting, transaction.with_number


def _of_one(transaction: Transaction, name: str, after: LimitPlace | None, most: int) -> list[LimitStatus]:
    declared = transaction.book.limits.get(name)
    whole = Key(name, rate=declared is not None and declared.kind == "rate")
    rows: list[LimitStatus] = []
    if after is None:
        rows.append(
            _counted(
                transaction, whole, spans_of(transaction.holding, name), spans_of(transaction.waiting, name)
            )
        )
    place = (name, "") if after is None else (after[1], after[2])
    keys = {key for read in _reads(transaction) for key in by_text(read, name, place, most)}
    more = (*overridden(transaction.book), *map(Key.of, transaction.book.gates))
    keys |= {key for key in more if key.name == name and (key.text, key.tenant) > place}
    shown = sorted(keys - {whole}, key=lambda key: (key.text, key.tenant))[: most - len(rows)]
    return rows + [of_key(transaction, key) for key in shown]


def of_key(transaction: Transaction, key: Key, most: int = COUNTED_MOST) -> LimitStatus:
    """One key."""
    alone = [(key.ident, just_after(key.ident))]
    return _counted(transaction, key, alone, alone, most)


def _counted(
    transaction: Transaction,
    key: Key,
    held: Iterable[Span],
    waiting: Iterable[Span],
    most: int = COUNTED_MOST,
) -> LimitStatus:
    """A key, or a limit as such, with how many hold and wait for it; counts stop at a bound."""
    holders, units = _count(transaction, "held_between", held, most)
    waiters, _ = _count(transaction, "waiting_between", waiting, most)
    return key_status(transaction.book, key, units, waiters, exact=max(holders, waiters) < most)


def _count(transaction: Transaction, statement: str, spans: Iterable[Span], most: int) -> tuple[int, int]:
    """How many records, and how many units these are."""
    count = units = 0
    for first, below in spans:
        bindings = (first, below, most - count)
        ((more, of_units),) = transaction.execute(sql(statement), bindings).fetchall()
        count, units = count + more, units + of_units
        if count >= most:
            break
    return count, units
