"""Lists of limits and of their keys, in pages: scripts read a slice of an index at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from headgate.engine.contract import KeyInUse, LimitPlace, LimitStatus
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.reading import book_of
from headgate.engine.redis.records import or_false, or_none
from headgate.engine.redis.store import Store
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.status import all_status, limits_page
from headgate.keys import Key

ALL = 1 << 30


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
    """Limit after limit, until the page is full. A limit's own record has the sums over its keys, so that a page that
    begins with it reads all of them; one that continues behind it reads what it shows."""
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
    rows: list[Any] | None = None
    if after is not None and after[0] == name and after[1] != name and not after[2] and limit is not None:
        rows = await _behind(store, book, after, limit, now)
    if rows is None:
        rows = [row async for row in _keys_with_counts(store, name, now)]
    held = {ident: count for ident, count, _, _ in rows if count}
    waiting = {ident: count for ident, _, count, _ in rows if count}
    book.computed = {ident: (computed[0], computed[1]) for ident, _, _, computed in rows if computed}
    return limits_page(all_status(book, held, waiting, name), after, limit)


async def _behind(
    store: Store, book: RuleBook, after: LimitPlace, limit: int, now: int | None
) -> list[Any] | None:
    """The keys of a page that continues within a limit; None where idents stand in another order than texts."""
    name, text, _ = after
    declared = book.limits.get(name)
    rate = declared is not None and declared.kind == "rate"
    position = Key(name, text.partition("=")[2], "", rate).ident
    found: list[Any] = []
    for partition in store.partitions:
        last: str | bool = position
        wanted = limit
        while wanted > 0 and last is not False:
            (rows, last, alike), _ = await store.one(partition, "limits", [name, last, wanted], now=now)
            if not alike:
                return None
            found += rows
            wanted -= len(rows)
    return found


async def _keys_with_counts(store: Store, name: str, now: int | None) -> AsyncIterator[Any]:
    for partition in store.partitions:
        last: str | bool = False
        while True:
            (rows, last, _), _ = await store.one(partition, "limits", [name, last, ALL], now=now)
            for row in rows:
                yield row
            if last is False:
                break
