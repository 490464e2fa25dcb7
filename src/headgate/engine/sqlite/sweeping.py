"""What time does, each duty bounded: due jobs, rate timers, lapsed workers, reservations, overrides, retention."""

from __future__ import annotations

from functools import cache, partial

from headgate.engine.contract import LostJob, Swept
from headgate.engine.rules.history import HISTORY_KEPT
from headgate.engine.rules.in_force import KEEP_NUMBERS
from headgate.engine.rules.shares import KEEP_MEANS
from headgate.engine.rules.turned_away import EXPIRED
from headgate.engine.sqlite.key_ranges import parsed
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction
from headgate.keys import Key
from headgate.rates import Pace

SWEEP_MOST = 1000


def next_due(transaction: Transaction) -> int | None:
    """When a sweep will next have work."""
    times = transaction.execute(sql("next_due")).fetchall()[0]
    return min((time for time in (*times, transaction.book.next_term) if time is not None), default=None)


def nothing_due(transaction: Transaction) -> Swept | None:
    """A look without a transaction: the usual sweep finds nothing."""
    due = next_due(transaction)
    rest = transaction.execute(sql("next_expiry"), (KEEP_NUMBERS, HISTORY_KEPT, KEEP_MEANS)).fetchall()[0]
    if any(time is not None and time <= transaction.now for time in (due, *rest)):
        return None
    if transaction.execute(sql("idle_places"), (1,)).fetchall():
        return None
    return Swept(0, 0, 0, 0, False, due, transaction.now)


def sweep(transaction: Transaction) -> Swept:
    """One round of every duty."""
    late = _too_late(transaction)
    due = _arrivals(transaction)
    lost, failed = _lost(transaction)
    timers = _timers(transaction)
    _reservations(transaction)
    unsettled = _overrides(transaction)
    _weights(transaction)
    _gates(transaction)
    sliced = transaction.next_slice()
    expired = _retention(transaction)
    forgotten = _forget_rates(transaction)
    _forget_numbers(transaction)
    _forget_shares(transaction)
    old = _forget_history(transaction)
    offered = transaction.finish()
    more = (
        unsettled
        or sliced
        or lost >= SWEEP_MOST
        or SWEEP_MOST in (late, due, timers, expired, old, *forgotten)
    )
    return Swept(due, lost, offered, expired, more, next_due(transaction), transaction.now, tuple(failed))


def _too_late(transaction: Transaction) -> int:
    """Jobs that were not started in time end."""
    late = transaction.execute(sql("late"), (transaction.now, SWEEP_MOST)).fetchall()
    for job in transaction.jobs_by_seq(late):
        transaction.cancel_pending(job, EXPIRED)
    return len(late)


def _arrivals(transaction: Transaction) -> int:
    transaction.ledger.flush()
    due = transaction.execute(sql("due"), (transaction.now, SWEEP_MOST)).fetchall()
    jobs = transaction.jobs_by_seq(due)
    transaction.count_for(jobs)
    for job in jobs:
        transaction.come(job)
    return len(due)


def _lost(transaction: Transaction) -> tuple[int, list[LostJob]]:
    """Whole workers, since blame compares what one ran; the bound is checked between them."""
    attempts, failed = 0, list[LostJob]()
    transaction.ledger.flush()
    for (worker,) in transaction.execute(sql("lapsed"), (transaction.now,)).fetchall():
        if attempts < SWEEP_MOST:
            lost = transaction.lose_worker(worker)
            attempts += lost.attempts
            failed += lost.failed
    return attempts, failed


def _timers(transaction: Transaction) -> int:
    keys = transaction.execute(sql("due_timers"), (transaction.now, SWEEP_MOST)).fetchall()
    for (key,) in keys:
        transaction.admission.touch(key)
    return len(keys)


def _reservations(transaction: Transaction) -> None:
    """A reservation whose job was offered and not claimed in time is dropped (rule 7)."""
    for key, seq in transaction.execute(
        sql("expired_reservations"), (transaction.now, SWEEP_MOST)
    ).fetchall():
        transaction.ledger.drop_reservation(key, seq)
        transaction.admission.touch(key)


def _overrides(transaction: Transaction) -> bool:
    """Those that have run out, and a slice of what earlier changes have left to do; returns whether more is left."""
    for scope, override in list(transaction.book.overrides.items()):
        if override.until is not None and override.until <= transaction.now:
            transaction.set_override(scope, None)
    return bool(transaction.book.unsettled) and transaction.settle_slice()


def _weights(transaction: Transaction) -> None:
    """Those that have run out."""
    for share, weight in list(transaction.book.weights.items()):
        if weight.until is not None and weight.until <= transaction.now:
            transaction.set_share(share, None)


def _gates(transaction: Transaction) -> None:
    """Keys that were throttled and are open wide again."""
    for key, gate in list(transaction.book.gates.items()):
        if gate.open_at(transaction.book.number(Key.of(key))) <= transaction.now:
            transaction.open_wide(key)


def _retention(transaction: Transaction) -> int:
    transaction.ledger.flush()
    old = transaction.execute(sql("expired"), (transaction.now, SWEEP_MOST)).fetchall()
    for (seq,) in old:
        transaction.remove_seq(seq)
    return len(old)


def _forget_rates(transaction: Transaction) -> tuple[int, int]:
    """Meters of rate keys that are as good as new."""
    transaction.execute(sql("forget_full_meters"), (transaction.now, SWEEP_MOST))
    meters = transaction.connection.changes()
    return meters, _forget_starts(transaction)


def _forget_starts(transaction: Transaction) -> int:
    """Starts that have left their window, which may have become longer since they were written."""
    now, period = transaction.now, cache(partial(_window, transaction))
    rows = transaction.execute(sql("old_starts"), (now, SWEEP_MOST)).fetchall()
    staying = [(rowid, at + period(key)) for rowid, key, at in rows if at + period(key) > now]
    transaction.executemany(sql("keep_start"), staying)
    transaction.execute(sql("forget_old_starts"), (now, SWEEP_MOST))
    return len(rows)


def _window(transaction: Transaction, key: str) -> int:
    """How long a start of a key counts; 0 where no window counts it."""
    if not isinstance(key, str) or parsed(key) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        return 0  # a garbled key
    rule = transaction.book.rule(key)
    return rule.period if isinstance(rule, Pace) and rule.exact else 0


def _forget_numbers(transaction: Transaction) -> None:
    """Numbers of idle keys. One that is in use may be old, too, where no worker computes: the next sweep goes on behind
    it, and begins anew at the end."""
    book, until = transaction.book, transaction.now - KEEP_NUMBERS
    rows = transaction.execute(sql("old_numbers"), (book.looked_at_numbers, until, SWEEP_MOST)).fetchall()
    book.looked_at_numbers = rows[-1][1] if len(rows) == SWEEP_MOST else 0
    for key, _, idle in rows:
        if idle:
            transaction.forget_numbers(key)


def _forget_shares(transaction: Transaction) -> None:
    """The virtual time of a line without jobs of any share, and mean times of shares that have been idle for long."""
    for place in transaction.execute(sql("idle_places"), (SWEEP_MOST,)).fetchall():
        transaction.execute(sql("forget_virtual_time"), place)
    until = transaction.now - KEEP_MEANS
    for queue, share in transaction.execute(sql("old_means"), (until, SWEEP_MOST)).fetchall():
        if queue not in transaction.queues_of_share(share):
            transaction.execute(sql("forget_mean"), (queue, share))


def _forget_history(transaction: Transaction) -> int:
    """Minutes of more than a day ago."""
    transaction.execute(sql("forget_history"), (transaction.now - HISTORY_KEPT, SWEEP_MOST))
    return transaction.connection.changes()
