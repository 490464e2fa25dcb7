"""How the memory store stands as a whole: totals, the tightest keys, single keys, history."""

from __future__ import annotations

from collections import Counter
from heapq import merge, nsmallest
from itertools import islice

from headgate.engine.contract import Done, KeyStatus, LimitStatus, ShareStatus, Totals, Waiter
from headgate.engine.memory import reading
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import MemoryStore
from headgate.engine.memory.transaction import Transaction
from headgate.engine.rules.history import summed
from headgate.engine.rules.reading import key_status
from headgate.engine.rules.status import with_tokens
from headgate.job import JobState
from headgate.keys import Key


def totals(store: MemoryStore) -> Totals:
    """How many jobs there are in each state."""
    counts = Counter(job.state for job in store.jobs.values())
    return Totals({state: counts[state] for state in JobState})


def tightest(store: MemoryStore, most: int) -> list[LimitStatus]:
    """The keys that most jobs wait on."""
    waiting = reading.waiting_counts(store)
    keys = nsmallest(most, waiting, key=lambda key: (-waiting[key], key))
    return [reading.status(store, key) for key in keys]


def key(transaction: Transaction, ident: str, holders: int, waiters: int) -> KeyStatus | None:
    """How one key stands."""
    store, ledger = transaction.store, transaction.ledger
    if not store.book.is_known(Key.of(ident)):
        return None
    return key_status(
        reading.status(store, ident),
        ledger.rule(ident),
        lambda: ledger.meter(ident),
        transaction.now,
        holders=reading.holders(store, ident, holders),
        waiters=_waiters(store, ident, waiters),
    )


def tokens(store: MemoryStore, row: LimitStatus, now: int) -> LimitStatus:
    """A record of the listing with its tokens, if it is of a rate."""
    if row.kind != "rate":
        return row
    name, _, value = row.key.partition("=")
    key = Key(name, value if "=" in row.key else None, row.tenant, rate=True)
    ledger = MemoryLedger(store, now, 0)
    return with_tokens(row, ledger.rule(key.ident), lambda: ledger.meter(key.ident), now)


def shares(store: MemoryStore, after: str | None) -> list[ShareStatus]:
    """The shares that have jobs or a weight, in the order of their names."""
    pending = Counter(
        {
            share: sum(len(lines[share]) for lines in store.shares.values() if share in lines)
            for share in {share for lines in store.shares.values() for share in lines}
        }
    )
    book = store.book
    names = {*pending, *book.weights, *book.declared_weights}
    return [
        ShareStatus(
            share, book.weight(share), book.declared_weight(share), book.weights.get(share), pending[share]
        )
        for share in sorted(names)
        if after is None or share > after
    ]


def _waiters(store: MemoryStore, ident: str, most: int) -> tuple[Waiter, ...]:
    lines = [line.first(most) for line in store.waiting.get(ident, {}).values()]
    first = islice(merge(*lines, key=lambda job: job.order), most)
    return tuple(Waiter(job.id, job.task, job.queue, job.tenant, job.priority, job.due) for job in first)


def history(
    store: MemoryStore, since: int, step: int, queue: str | None, task: str | None, *, each: bool
) -> list[Done]:
    """What was done, by spans of time."""
    rows = [
        row
        for at, minute in store.history.items()
        if at >= since
        for row in minute.values()
        if queue in (None, row.queue) and task in (None, row.task)
    ]
    return summed(rows, step, each=each)
