"""How the memory store stands as a whole: totals, the tightest keys, single keys, history."""

from __future__ import annotations

from collections import Counter
from heapq import merge, nsmallest
from itertools import islice

from headgate.engine.contract import Done, KeyStatus, LimitStatus, Totals, Waiter
from headgate.engine.memory import reading
from headgate.engine.memory.store import MemoryStore
from headgate.engine.memory.transaction import Transaction
from headgate.engine.rules.history import summed
from headgate.engine.rules.reading import key_status
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
