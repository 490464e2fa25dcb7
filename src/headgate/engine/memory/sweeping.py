"""What time does, each duty bounded: due jobs, rate timers, lapsed workers, reservations, overrides, retention."""

from __future__ import annotations

from headgate.engine.contract import LostJob, Swept
from headgate.engine.memory import reading
from headgate.engine.memory.transaction import Transaction
from headgate.engine.rules.history import HISTORY_KEPT
from headgate.engine.rules.in_force import KEEP_NUMBERS
from headgate.engine.rules.shares import KEEP_MEANS
from headgate.engine.rules.turned_away import EXPIRED
from headgate.keys import Key

SWEEP_MOST = 1000


def sweep(transaction: Transaction) -> Swept:
    """One round of every duty."""
    late = _too_late(transaction)
    due, (lost, failed) = _arrivals(transaction), _lost(transaction)
    _timers(transaction)
    _reservations(transaction)
    _overrides(transaction)
    _weights(transaction)
    _gates(transaction)
    expired = _retention(transaction)
    _forget_meters(transaction)
    _forget_numbers(transaction)
    _forget_shares(transaction)
    _forget_history(transaction)
    offered = transaction.admission.offer()
    return Swept(
        due,
        lost,
        offered,
        expired,
        SWEEP_MOST in (due, late) or lost >= SWEEP_MOST or expired == SWEEP_MOST,
        reading.next_due(transaction.store),
        transaction.now,
        tuple(failed),
    )


def _too_late(transaction: Transaction) -> int:
    """Jobs that were not started in time end."""
    late = transaction.store.starting.until((transaction.now + 1,), SWEEP_MOST)
    for job in late:
        transaction.cancel_pending(job, EXPIRED)
    return len(late)


def _arrivals(transaction: Transaction) -> int:
    due = transaction.store.scheduled.until((transaction.now + 1,), SWEEP_MOST)
    for job in due:
        transaction.come(job)
    return len(due)


def _lost(transaction: Transaction) -> tuple[int, list[LostJob]]:
    """Whole workers, since blame compares what one ran; the bound is checked between them."""
    attempts, failed = 0, list[LostJob]()
    for name, entry in sorted(transaction.store.workers.items()):
        if entry.lease_until <= transaction.now and attempts < SWEEP_MOST:
            lost = transaction.lose_worker(name)
            attempts += lost.attempts
            failed += lost.failed
    return attempts, failed


def _timers(transaction: Transaction) -> None:
    for key, at in list(transaction.store.timers.items()):
        if at <= transaction.now:
            transaction.admission.touch(key)


def _reservations(transaction: Transaction) -> None:
    """A reservation whose job was offered and not claimed in time is dropped (rule 7)."""
    for key, holders in list(transaction.store.holders.items()):
        for holding in list(holders.values()):
            if holding.expires_at is not None and holding.expires_at <= transaction.now:
                transaction.store.let_go(key, holding)
                transaction.admission.touch(key)


def _overrides(transaction: Transaction) -> None:
    for scope, override in list(transaction.store.book.overrides.items()):
        if override.until is not None and override.until <= transaction.now:
            transaction.set_override(scope, None)


def _retention(transaction: Transaction) -> int:
    old = transaction.store.ended.until((transaction.now + 1,), SWEEP_MOST)
    for job in old:
        transaction.store.remove(job)
    return len(old)


def _forget_meters(transaction: Transaction) -> None:
    for key in list(transaction.store.meters):
        if reading.is_idle_rate(transaction.ledger, key, transaction.now):
            transaction.store.put(transaction.store.meters, key, None)


def _weights(transaction: Transaction) -> None:
    for share, weight in list(transaction.book.weights.items()):
        if weight.until is not None and weight.until <= transaction.now:
            transaction.set_share(share, None)


def _gates(transaction: Transaction) -> None:
    """Keys that were throttled and are open wide again."""
    for key, gate in list(transaction.book.gates.items()):
        if gate.open_at(transaction.book.number(Key.of(key))) <= transaction.now:
            transaction.open_wide(key)


def _forget_numbers(transaction: Transaction) -> None:
    """Numbers of idle keys: else every key that ever was would be remembered."""
    for key, numbers in list(transaction.book.numbers.items()):
        idle = key not in transaction.store.holders and key not in transaction.store.waiting
        if idle and numbers.at <= transaction.now - KEEP_NUMBERS:
            transaction.put_numbers(key, None)
            transaction.book.changed()


def _forget_shares(transaction: Transaction) -> None:
    """The virtual time of a line without jobs of any share, and mean times of shares that have been idle for long."""
    store = transaction.store
    running = {
        (job.queue, job.priority) for jobs in store.running.values() for job in jobs.values() if job.tag
    }
    for place in list(store.virtual):
        if place not in store.shares and place not in running:
            store.put(store.virtual, place, None)
    busy = {(queue, share) for (queue, _), shares in store.shares.items() for share in shares}
    for pair, mean in list(store.means.items()):
        if pair not in busy and mean.at <= transaction.now - KEEP_MEANS:
            store.put(store.means, pair, None)


def _forget_history(transaction: Transaction) -> None:
    for at in [at for at in transaction.store.history if at + HISTORY_KEPT <= transaction.now]:
        transaction.store.put(transaction.store.history, at, None)
