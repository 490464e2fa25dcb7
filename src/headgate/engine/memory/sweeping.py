"""What time does, each duty bounded: due jobs, rate timers, lapsed workers, reservations, overrides, retention."""

from __future__ import annotations

from headgate.engine.contract import LostJob, Swept
from headgate.engine.memory import reading
from headgate.engine.memory.step import Step
from headgate.engine.rules.in_force import KEEP_COMPUTED

SWEEP_MOST = 1000


def sweep(step: Step) -> Swept:
    """One round of every duty."""
    due, (lost, failed) = _arrivals(step), _lost(step)
    _timers(step)
    _reservations(step)
    _overrides(step)
    expired = _retention(step)
    _forget_meters(step)
    _forget_computed(step)
    offered = step.admission.offer()
    return Swept(
        due,
        lost,
        offered,
        expired,
        due == SWEEP_MOST or lost >= SWEEP_MOST or expired == SWEEP_MOST,
        reading.next_due(step.store),
        step.now,
        tuple(failed),
    )


def _arrivals(step: Step) -> int:
    due = step.store.scheduled.until((step.now + 1,), SWEEP_MOST)
    for job in due:
        step.come(job)
    return len(due)


def _lost(step: Step) -> tuple[int, list[LostJob]]:
    """Whole workers, since blame compares what one ran; the bound is checked between them."""
    attempts, failed = 0, list[LostJob]()
    for name, entry in sorted(step.store.workers.items()):
        if entry.lease_until <= step.now and attempts < SWEEP_MOST:
            lost = step.lose_worker(name)
            attempts += lost.attempts
            failed += lost.failed
    return attempts, failed


def _timers(step: Step) -> None:
    for key, at in list(step.store.timers.items()):
        if at <= step.now:
            step.admission.touch(key)


def _reservations(step: Step) -> None:
    """A reservation whose job was offered and not claimed in time is dropped (rule 7)."""
    for key, holders in list(step.store.holders.items()):
        for holding in list(holders.values()):
            if holding.expires_at is not None and holding.expires_at <= step.now:
                step.store.let_go(key, holding)
                step.admission.touch(key)


def _overrides(step: Step) -> None:
    for scope, override in list(step.store.book.overrides.items()):
        if override.until is not None and override.until <= step.now:
            step.set_override(scope, None)


def _retention(step: Step) -> int:
    old = step.store.ended.until((step.now + 1,), SWEEP_MOST)
    for job in old:
        step.store.remove(job)
    return len(old)


def _forget_meters(step: Step) -> None:
    for key in list(step.store.meters):
        if reading.is_idle_rate(step.ledger, key, step.now):
            step.store.put(step.store.meters, key, None)


def _forget_computed(step: Step) -> None:
    """Numbers of idle keys: else every key that ever was would be remembered."""
    for key, (_, at) in list(step.book.computed.items()):
        idle = key not in step.store.holders and key not in step.store.waiting
        if idle and at <= step.now - KEEP_COMPUTED:
            step.forget_computed(key)
