"""How single keys stand: what is left of them, what holds them, what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from headgate.engine.contract import Holder, KeyStatus, LimitStatus, Waiter
from headgate.engine.redis import partitions
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.records import or_none, read_limit, read_numbers, read_override
from headgate.engine.redis.store import Store
from headgate.engine.rules.admission import Gate
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.status import key_status
from headgate.keys import Key

Row = list[Any]

AT_ONCE = 200
"""Rows per script call: keys, holders and waiters."""


async def keys(
    store: Store, idents: Sequence[str], holders: int, waiters: int, now: int | None
) -> list[KeyStatus | None]:
    """Each key where it lives, so many at a time that others get through in between."""
    number = len(store.partitions)
    homes = [partitions.home(Key.of(ident).tenant, number) for ident in idents]
    found: dict[str, KeyStatus | None] = {}
    for home in dict.fromkeys(homes):
        own = [ident for ident, where in zip(idents, homes, strict=True) if where == home]
        found |= await _keys_in(store, store.partitions[home], own, holders, waiters, now)
    return [found[ident] for ident in idents]


async def _keys_in(
    store: Store, partition: Partition, idents: Sequence[str], holders: int, waiters: int, now: int | None
) -> dict[str, KeyStatus | None]:
    first = min(waiters, AT_ONCE)
    most = max(1, AT_ONCE // (1 + holders + first))
    found: dict[str, KeyStatus | None] = {}
    for start in range(0, len(idents), most):
        batch = list(idents[start : start + most])
        rows, _ = await store.one(partition, "keys", [batch, holders, first], now=now)
        for ident, row in zip(batch, rows, strict=True):
            found[ident] = await _status(store, partition, ident, row, holders, waiters, now) if row else None
    return found


async def _status(
    store: Store, partition: Partition, ident: str, row: Row, holders: int, waiters: int, now: int | None
) -> KeyStatus:
    limit, override, numbers, held, waiting, free, earliest, holding, in_line, tokens, gate = row
    if holding is False:
        holding = await holders_of(store, partition, ident, holders, now)
    if len(in_line) < min(waiters, waiting):
        in_line = await waiters_of(store, partition, ident, waiters, now)
    status = key_status(_book(ident, limit, override, (numbers, gate)), Key.of(ident), held, waiting)
    return KeyStatus(
        status=with_tokens(status, tokens),
        free=or_none(free),
        earliest=or_none(earliest),
        holders=read_holders(holding),
        waiters=tuple(Waiter(*each) for each in in_line),
    )


def _book(ident: str, limit: Any, override: Any, own: Row | tuple[Any, ...]) -> RuleBook:
    """As much of the rule book as speaks for one key."""
    book = RuleBook()
    if limit:
        declared = read_limit(limit)
        book.limits[declared.name] = declared
    if override:
        word = read_override(override)
        book.overrides[word.name, word.value, word.tenant] = word
    learn_of(book, ident, *own)
    return book


def learn_of(book: RuleBook, ident: str, numbers: Any, gate: Any) -> None:
    """What scripts answered of one key: its own numbers, and what it opens by."""
    if numbers:
        book.numbers[ident] = read_numbers(numbers)
    if gate:
        book.gates[ident] = Gate(gate[0], gate[1])


def with_tokens(status: LimitStatus, tokens: Any) -> LimitStatus:
    """A record with the tokens that scripts answered, and when the next is there."""
    if not tokens:
        return status
    return msgspec.structs.replace(status, tokens=tokens[0], next_at=or_none(tokens[1]))


def read_holders(rows: Iterable[Row]) -> tuple[Holder, ...]:
    """Holders as scripts answer them."""
    return tuple(
        Holder(id, task, or_none(worker), since, reserved, units)
        for id, task, worker, since, reserved, _, units in rows
    )


async def holders_of(
    store: Store, partition: Partition, ident: str, most: int, now: int | None = None
) -> list[Row]:
    """The first holders of a key that has very many."""
    first: dict[str, Row] = {}
    cursor = "0"
    while True:
        (rows, cursor), _ = await store.one(partition, "holders", [ident, most, cursor], now=now)
        first |= {row[0]: row for row in rows}
        ordered = sorted(first.values(), key=itemgetter(3, 5))[:most]
        if cursor == "0":
            return ordered
        first = {row[0]: row for row in ordered}


async def waiters_of(
    store: Store, partition: Partition, ident: str, most: int, now: int | None = None
) -> list[Row]:
    """The first waiters of a key, slice by slice."""
    found: list[Row] = []
    last: str | bool = False
    while len(found) < most:
        wanted = min(most - len(found), AT_ONCE)
        (rows, last), _ = await store.one(partition, "waiters", [ident, wanted, last], now=now)
        found += rows
        if last is False:
            break
    return found
