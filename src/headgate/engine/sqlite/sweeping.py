"""What time does, each duty bounded: due jobs, rate timers, lapsed workers, reservations, overrides, retention."""

from __future__ import annotations

from headgate.engine.contract import LostJob, Swept
from headgate.engine.rules.in_force import KEEP_COMPUTED
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step

SWEEP_MOST = 1000


def next_due(step: Step) -> int | None:
    """When a sweep will next have work."""
    times = step.execute(sql("next_due")).fetchall()[0]
    return min((time for time in times if time is not None), default=None)


def nothing_due(step: Step) -> Swept | None:
    """A look without a transaction: the usual sweep finds nothing."""
    due = next_due(step)
    rest = step.execute(sql("next_expiry"), (KEEP_COMPUTED,)).fetchall()[0]
    if any(time is not None and time <= step.now for time in (due, *rest)):
        return None
    return Swept(0, 0, 0, 0, False, due, step.now)


def sweep(step: Step) -> Swept:
    """One round of every duty."""
    due = _arrivals(step)
    lost, failed = _lost(step)
    timers = _timers(step)
    _reservations(step)
    unsettled = _overrides(step)
    expired = _retention(step)
    forgotten = _forget_rates(step)
    _forget_computed(step)
    offered = step.finish()
    more = unsettled or lost >= SWEEP_MOST or SWEEP_MOST in (due, timers, expired, *forgotten)
    return Swept(due, lost, offered, expired, more, next_due(step), step.now, tuple(failed))


def _arrivals(step: Step) -> int:
    due = step.execute(sql("due"), (step.now, SWEEP_MOST)).fetchall()
    jobs = step.jobs_by_seq(due)
    step.count_for(jobs)
    for job in jobs:
        step.come(job)
    return len(due)


def _lost(step: Step) -> tuple[int, list[LostJob]]:
    """Whole workers, since blame compares what one ran; the bound is checked between them."""
    attempts, failed = 0, list[LostJob]()
    step.ledger.flush()
    for (worker,) in step.execute(sql("lapsed"), (step.now,)).fetchall():
        if attempts < SWEEP_MOST:
            lost = step.lose_worker(worker)
            attempts += lost.attempts
            failed += lost.failed
    return attempts, failed


def _timers(step: Step) -> int:
    keys = step.execute(sql("due_timers"), (step.now, SWEEP_MOST)).fetchall()
    for (key,) in keys:
        step.admission.touch(key)
    return len(keys)


def _reservations(step: Step) -> None:
    """A reservation whose job was offered and not claimed in time is dropped (rule 7)."""
    for key, seq in step.execute(sql("expired_reservations"), (step.now, SWEEP_MOST)).fetchall():
        step.ledger.drop_reservation(key, seq)
        step.admission.touch(key)


def _overrides(step: Step) -> bool:
    """Those that have run out, and a slice of what earlier changes have left to do; returns whether more is left."""
    for scope, override in list(step.book.overrides.items()):
        if override.until is not None and override.until <= step.now:
            step.set_override(scope, None)
    return bool(step.book.unsettled) and step.settle_slice()


def _retention(step: Step) -> int:
    step.ledger.flush()
    old = step.execute(sql("expired"), (step.now, SWEEP_MOST)).fetchall()
    for (seq,) in old:
        step.remove_seq(seq)
    return len(old)


def _forget_rates(step: Step) -> tuple[int, int]:
    """Meters of rate keys that are as good as new."""
    step.execute(sql("forget_full_meters"), (step.now, SWEEP_MOST))
    meters = step.connection.changes()
    step.execute(sql("forget_old_starts"), (step.now, SWEEP_MOST))
    return meters, step.connection.changes()


def _forget_computed(step: Step) -> None:
    """Numbers of idle keys. One that is in use may be old, too, where no worker computes: the next sweep goes on behind
    it, and begins anew at the end."""
    book, until = step.book, step.now - KEEP_COMPUTED
    rows = step.execute(sql("old_computed"), (book.looked_at_computed, until, SWEEP_MOST)).fetchall()
    book.looked_at_computed = rows[-1][1] if len(rows) == SWEEP_MOST else 0
    for key, _, idle in rows:
        if idle:
            step.forget_computed(key)
