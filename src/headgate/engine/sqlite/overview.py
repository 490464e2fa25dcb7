"""How the file stands as a whole: totals, queues, the tightest keys, single keys, history. Counts stop at bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from heapq import merge, nsmallest
from itertools import islice

from headgate.engine.contract import (
    Done,
    KeyStatus,
    LimitStatus,
    QueueStatus,
    ShareStatus,
    Totals,
    Waiter,
)
from headgate.engine.rules.admission import Cap
from headgate.engine.rules.reading import key_status, queue_statuses
from headgate.engine.rules.status import COUNTED_MOST
from headgate.engine.sqlite.garbled import shown, shown_row
from headgate.engine.sqlite.key_ranges import parsed
from headgate.engine.sqlite.listing import of_key
from headgate.engine.sqlite.reading import holders_of
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction
from headgate.job import JobState
from headgate.keys import Key

GRAVITIES = range(4)
MOST_KEYS, MOST_WAITING = 10_000, 100_000
"""How far the search for the tightest keys looks."""
MOST_IN_LINES = 50_000
"""How many jobs of a line are looked at to find their queues, where a bound is asked for."""


def totals(transaction: Transaction, most: int | None) -> Totals:
    """How many jobs there are in each state."""
    counts = dict.fromkeys(JobState, 0)
    partial: set[JobState] = set()
    for name, count in transaction.execute(sql("totals"), (-1 if most is None else most,)).fetchall():
        state = JobState(name)
        counts[state] += count
        if count == most:
            partial.add(state)
    return Totals(counts, frozenset(partial))


def queues(transaction: Transaction, most: int | None) -> list[QueueStatus]:
    """Every queue with unfinished jobs, or paused."""
    in_lines = -1 if most is None else max(most, MOST_IN_LINES)
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    partial: set[str] = set()
    for queue, state, count in _ready(transaction, -1 if most is None else most):
        counts[queue, state] += count
        if count == most:
            partial.add(queue)
    lines: defaultdict[str, int] = defaultdict(int)
    for queue, state, count in map(
        shown_row, transaction.execute(sql("line_counts"), (in_lines,)).fetchall()
    ):
        counts[queue, state] += count
        lines[state] += count
    whole = in_lines < 0 or max(lines.values(), default=0) < in_lines
    paused = {shown(queue) for (queue,) in transaction.execute(sql("paused")).fetchall()}
    oldest = dict(map(shown_row, transaction.execute(sql("queue_oldest")).fetchall()))
    return queue_statuses(counts, paused, oldest, partial if whole else None)


def _ready(transaction: Transaction, most: int) -> Iterator[tuple[str, str, int]]:
    for gravity in GRAVITIES:
        for row in transaction.execute(sql("ready_counts"), (gravity, most)).fetchall():
            queue, state, count = shown_row(row)
            yield queue, state, count


def tightest(transaction: Transaction, most: int) -> list[LimitStatus]:
    """The keys that most jobs wait on, among the first that are waited for."""
    found: dict[str, int] = {}
    waiting = 0
    for key, count in transaction.execute(sql("waiting_counts")):
        if isinstance(key, str) and parsed(key) is not None:
            found[key] = count
        waiting += count
        if len(found) >= MOST_KEYS or waiting >= MOST_WAITING:
            break
    return [
        of_key(transaction, Key.of(key), found[key] + 1)
        for key in nsmallest(most, found, key=lambda key: (-found[key], key))
    ]


def key(transaction: Transaction, ident: str, holders: int, waiters: int) -> KeyStatus | None:
    """How one key stands."""
    book, ledger = transaction.book, transaction.ledger
    if not book.is_known(Key.of(ident)):
        return None
    rule = book.rule(ident)
    most = (
        rule.max or 0 if isinstance(rule, Cap) else 0
    )  # what is left is known only if all that hold it are counted
    return key_status(
        of_key(transaction, Key.of(ident), max(most + 1, COUNTED_MOST)),
        rule,
        lambda: ledger.meter(ident),
        transaction.now,
        holders=holders_of(transaction, ident, holders),
        waiters=_waiters(transaction, ident, waiters),
    )


def _waiters(transaction: Transaction, ident: str, most: int) -> tuple[Waiter, ...]:
    if not most:
        return ()
    queues = transaction.execute(sql("waiting_queues"), (ident,)).fetchall()
    lines = [transaction.execute(sql("waiters_of"), (ident, queue, most)).fetchall() for (queue,) in queues]
    rows = islice(merge(*lines), most)
    return tuple(
        Waiter(id, task, queue, tenant, priority, due)
        for priority, _, due, _, id, task, queue, tenant in map(shown_row, rows)
    )


def shares(transaction: Transaction, after: str | None, most: int) -> list[ShareStatus]:
    """The shares that have jobs or a weight, in the order of their names."""
    book, places = transaction.book, transaction.ledger.shares.places()
    names = {*book.weights, *book.declared_weights}
    for place in places:
        found = transaction.execute(sql("shares_at"), (*place, after or "", most)).fetchall()
        names |= {shown(share) for (share,) in found}
    return [
        ShareStatus(
            share,
            book.weight(share),
            book.declared_weight(share),
            book.weights.get(share),
            sum(transaction.execute(sql("share_pending"), (*place, share)).get for place in places),
        )
        for share in nsmallest(most, (name for name in names if after is None or name > after))
    ]


def history(
    transaction: Transaction, since: int, step: int, queue: str | None, task: str | None, *, each: bool
) -> list[Done]:
    """What was done, by spans of time."""
    rows = transaction.execute(sql("history"), (since, step, queue, task, each)).fetchall()
    return [Done(*shown_row(row)) for row in rows]
