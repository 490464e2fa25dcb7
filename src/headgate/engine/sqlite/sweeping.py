"""What time does, each duty bounded: due jobs, rate timers, lapsed workers, reservations, overrides, retention."""

from __future__ import annotations

from headgate.engine.contract import Swept
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step
from headgate.rates import Pace

SWEEP_MOST = 1000


def next_due(step: Step) -> int | None:
    """When a sweep will next have work."""
    times = step.execute(sql("next_due")).fetchall()[0]
    return min((time for time in times if time is not None), default=None)


def nothing_due(step: Step) -> Swept | None:
    """A look without a transaction: the usual sweep finds nothing."""
    due = next_due(step)
    rest = step.execute(sql("next_expiry")).fetchall()[0]
    if any(time is not None and time <= step.now for time in (due, *rest)):
        return None
    return Swept(0, 0, 0, 0, False, due, step.now)


def sweep(step: Step) -> Swept:
    """One round of every duty."""
    due, lost = _arrivals(step), _lost(step)
    timers = _timers(step)
    _reservations(step)
    _overrides(step)
    expired = _retention(step)
    _forget_rates(step)
    step.ledger.flush()
    offered = step.admission.offer()
    step.ledger.flush()
    return Swept(
        due, lost, offered, expired, SWEEP_MOST in (due, lost, timers, expired), next_due(step), step.now
    )


def _arrivals(step: Step) -> int:
    due = [step.job_by_seq(seq) for (seq,) in step.execute(sql("due"), (step.now, SWEEP_MOST)).fetchall()]
    step.count_for(due)
    for job in due:
        step.come(job)
    return len(due)


def _lost(step: Step) -> int:
    step.ledger.flush()
    lost = 0
    for (worker,) in step.execute(sql("lapsed"), (step.now,)).fetchall():
        attempts = step.execute(sql("running_of"), (worker, SWEEP_MOST - lost)).fetchall()
        for (seq,) in attempts:
            step.lose(step.job_by_seq(seq))
        lost += len(attempts)
        step.ledger.flush()
        if step.execute(sql("running_of"), (worker, 1)).get is None:
            step.execute(sql("forget_worker"), (worker,))
    return lost


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


def _overrides(step: Step) -> None:
    for scope, override in list(step.book.overrides.items()):
        if override.until is not None and override.until <= step.now:
            step.set_override(scope, None)


def _retention(step: Step) -> int:
    step.ledger.flush()
    old = step.execute(sql("expired"), (step.now, SWEEP_MOST)).fetchall()
    for (seq,) in old:
        step.remove_seq(seq)
    return len(old)


def _forget_rates(step: Step) -> None:
    for (key,) in step.execute(sql("full_meters"), (step.now, SWEEP_MOST)).fetchall():
        step.execute(sql("forget_meter"), (key,))
    for (key,) in step.execute(sql("old_starts"), (SWEEP_MOST,)).fetchall():
        rule = step.book.rule(key)
        period = rule.period if isinstance(rule, Pace) else 0
        step.execute(sql("forget_starts"), (key, step.now - period))
