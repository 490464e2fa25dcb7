"""Lists of limits and of their keys, in pages: scripts read a slice of an index at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import Any

import msgspec

from headgate.engine.contract import KeyInUse, LimitPlace, LimitStatus, ShareStatus
from headgate.engine.redis import partitions
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.reading import book_of
from headgate.engine.redis.records import or_false, or_none, read_weight
from headgate.engine.redis.standing import learn_of, with_tokens
from headgate.engine.redis.store import Store
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.status import COUNTED_MOST, all_status, key_status, limits_page
from headgate.keys import Key

ALL = 1 << 30
COUNTED_AT_ONCE = 500
"""Keys per script call."""
SHARES_AT_ONCE = 200
"""Shares per script call."""


async def keys_in_use(
    store: Store, name: str, computed_before: int | None, after: str | None, limit: int, now: int | None
) -> list[KeyInUse]:
    """Keys of one limit, each of which lives in one partition."""
    pages = [_keys_of(store, each, name, computed_before, after, limit, now) for each in store.partitions]
    rows = sorted((row for page in await asyncio.gather(*pages) for row in page), key=lambda row: row[0])
    return [
        KeyInUse(key, or_none(max), held, waiting, or_none(at))
        for key, max, held, waiting, at in rows[:limit]
    ]


async def _keys_of(
    store: Store,
    partition: Partition,
    name: str,
    computed_before: int | None,
    after: str | None,
    limit: int,
    now: int | None,
) -> list[Any]:
    found: list[Any] = []
    last: str | bool = or_false(after)
    while len(found) < limit:
        given = [name, or_false(computed_before), last, limit - len(found)]
        (rows, last), _ = await store.one(partition, "keys_in_use", given, now=now)
        found += rows
        if last is False:
            break
    return found


async def limits(
    store: Store, name: str | None, after: LimitPlace | None, limit: int | None, now: int | None
) -> list[LimitStatus]:
    """Limit after limit, until the page is full. A page reads the keys that it shows; what a limit's own record sums up
    over all of its keys is counted by the store, up to a bound."""
    books = await store.answers("book", [], now)
    book = book_of([*books[0][:2], []])
    names = {*book.limits, *(scope[0] for scope in book.overrides), *(each for b in books for each in b[2])}
    rows: list[LimitStatus] = []
    for each in sorted(names if name is None else names & {name}):
        if after is not None and each < after[0]:
            continue
        left = None if limit is None else limit - len(rows)
        rows += await _page(store, book, each, after, left, now)
        if limit is not None and len(rows) >= limit:
            break
    return rows


async def _page(
    store: Store, book: RuleBook, name: str, after: LimitPlace | None, limit: int | None, now: int | None
) -> list[LimitStatus]:
    begins = after is None or after[0] != name
    rows: list[Any] | None = None
    if limit is not None and after is not None and not begins and not after[2]:
        rows = await _first(store, _place_of(book, after), name, limit, now)
    elif limit is not None and begins:
        rows = await _first(store, False, name, limit, now)
    if rows is None and limit is not None:
        rows = await _first_of_all(store, name, after, limit, now)
    whole: Sequence[Any] | None = None
    if rows is None:
        rows = [row async for row in _keys_with_counts(store, name, now)]
    elif begins:
        whole = await _totals(store, name, now)
    held = {ident: count for ident, count, *_ in rows if count}
    waiting = {ident: count for ident, _, count, *_ in rows if count}
    book.numbers, book.gates = {}, {}
    for ident, _, _, *own in rows:
        learn_of(book, ident, *own)
    book.changed()
    listed = all_status(book, held, waiting, name)
    if whole is not None:
        listed[0] = key_status(book, _whole(book, name), *whole)
    return await _with_tokens(store, limits_page(listed, after, limit), now)


async def _with_tokens(store: Store, rows: list[LimitStatus], now: int | None) -> list[LimitStatus]:
    """Records of rates with the tokens that they have."""
    rates = {_ident(row): row for row in rows if row.kind == "rate"}
    tokens: dict[str, Any] = {}
    homes = [partitions.home(row.tenant, len(store.partitions)) for row in rates.values()]
    for home in dict.fromkeys(homes):
        own = [ident for ident, where in zip(rates, homes, strict=True) if where == home]
        for start in range(0, len(own), COUNTED_AT_ONCE):
            batch = own[start : start + COUNTED_AT_ONCE]
            found, _ = await store.one(store.partitions[home], "tokens", batch, now=now)
            tokens |= zip(batch, found, strict=True)
    return [with_tokens(row, tokens.get(_ident(row))) for row in rows]


def _ident(row: LimitStatus) -> str:
    name, equals, value = row.key.partition("=")
    return Key(name, value if equals else None, row.tenant, row.kind == "rate").ident


def _whole(book: RuleBook, name: str) -> Key:
    """The key that a limit's own record is about."""
    declared = book.limits.get(name)
    return Key(name, rate=declared is not None and declared.kind == "rate")


def _place_of(book: RuleBook, after: LimitPlace) -> str | bool:
    """The ident to read on behind: all of them where the limit's own record was the last."""
    name, text, _ = after
    value = text.partition("=")[2] if text != name else None
    return False if value is None else Key(name, value, "", _whole(book, name).rate).ident


async def _first(store: Store, last: str | bool, name: str, limit: int, now: int | None) -> list[Any] | None:
    """The first keys behind `last`; None where idents stand in another order than texts."""
    found: list[Any] = []
    for partition in store.partitions:
        place, wanted, more = last, limit, True
        while wanted > 0 and more:
            (rows, place, alike), _ = await store.one(partition, "limits", [name, place, wanted], now=now)
            if not alike:
                return None
            found += rows
            wanted -= len(rows)
            more = place is not False
    return found


async def _first_of_all(
    store: Store, name: str, after: LimitPlace | None, limit: int, now: int | None
) -> list[Any]:
    """The first keys in the order of their texts, found among all of them; only these are counted."""
    places: list[tuple[LimitPlace, str, Partition]] = []
    for partition in store.partitions:
        for ident in await _members(store, partition, name):
            key = Key.of(ident)
            place = (key.name, key.text, key.tenant)
            if after is None or place > after:
                places.append((place, ident, partition))
    first = nsmallest(limit, places, key=itemgetter(0))
    found: list[Any] = []
    for partition in store.partitions:
        own = [ident for _, ident, home in first if home is partition]
        for start in range(0, len(own), COUNTED_AT_ONCE):
            batch = own[start : start + COUNTED_AT_ONCE]
            found += (await store.one(partition, "limit_counts", batch, now=now))[0]
    return found


async def _members(store: Store, partition: Partition, name: str) -> list[str]:
    found: list[str] = []
    last: str | bool = False
    while True:
        (idents, last), _ = await store.one(partition, "limit_members", [name, last])
        found += idents
        if last is False:
            return found


async def _totals(store: Store, name: str, now: int | None) -> tuple[int, int, bool]:
    """How many hold and wait for the limit's keys, and whether these are all."""
    sums = await store.answers("limit_sums", [name, COUNTED_MOST], now)
    return (
        sum(held for held, _, _ in sums),
        sum(waiting for _, waiting, _ in sums),
        all(row[2] for row in sums),
    )


async def _keys_with_counts(store: Store, name: str, now: int | None) -> AsyncIterator[Any]:
    for partition in store.partitions:
        last: str | bool = False
        while True:
            (rows, last, _), _ = await store.one(partition, "limits", [name, last, ALL], now=now)
            for row in rows:
                yield row
            if last is False:
                break


async def shares(store: Store, after: str | None, limit: int) -> list[ShareStatus]:
    """The shares of all partitions in the order of their names. Their weights are the same in each."""
    found: dict[str, ShareStatus] = {}
    for answer in await asyncio.gather(*(_shares_in(store, each, after, limit) for each in store.partitions)):
        for row in answer:
            before = found.get(row.share)
            pending = row.pending + (before.pending if before else 0)
            found[row.share] = msgspec.structs.replace(row, pending=pending)
    return [found[share] for share in sorted(found)[:limit]]


async def _shares_in(store: Store, partition: Partition, after: str | None, limit: int) -> list[ShareStatus]:
    found: list[ShareStatus] = []
    last = after
    while len(found) < limit:
        wanted = min(limit - len(found), SHARES_AT_ONCE)
        rows, _ = await store.one(partition, "shares", [or_false(last), wanted])
        found += [_share(row) for row in rows]
        if len(rows) < wanted:
            break
        last = found[-1].share
    return found


def _share(row: Sequence[Any]) -> ShareStatus:
    share, said, declared, pending = row
    override = read_weight(said) if said else None
    declared_weight = float(declared[1]) if declared else None
    weight = override.weight if override else 1.0 if declared_weight is None else declared_weight
    return ShareStatus(share, weight, declared_weight, override, pending)
