"""Self-healing (rule 20): one slice of the keys in use, looked at again. What it finds is a defect's trace."""

from __future__ import annotations

from headgate.engine.contract import Rechecked
from headgate.engine.memory.transaction import Transaction
from headgate.engine.rules.mended import forgotten_waiters, late_timer, lost_worker, stray_holder
from headgate.job import PENDING, JobState


def recheck(transaction: Transaction, after: str | None, most: int) -> Rechecked:
    """Mend the next slice of keys; the first slice also loses attempts of workers that are not registered."""
    healed = [] if after is not None else _orphans(transaction)
    keys = sorted(
        key for key in {*transaction.store.holders, *transaction.store.waiting} if key > (after or "")
    )
    for key in keys[:most]:
        healed += _holders(transaction, key)
        healed += _waiters(transaction, key)
    return Rechecked(tuple(healed), keys[most - 1] if len(keys) > most else None)


def _orphans(transaction: Transaction) -> list[str]:
    healed: list[str] = []
    for worker in [
        name
        for name, jobs in transaction.store.running.items()
        if jobs and name not in transaction.store.workers
    ]:
        healed += [lost_worker(job.id, worker) for job in transaction.store.running_of(worker)]
        transaction.lose_worker(worker)
    return healed


def _holders(transaction: Transaction, key: str) -> list[str]:
    healed: list[str] = []
    for holding in list(transaction.store.holders.get(key, {}).values()):
        job = holding.job
        fits = job.state in PENDING if holding.reserved else job.state is JobState.RUNNING
        if not fits or transaction.store.jobs.get(job.id) is not job:
            transaction.store.let_go(key, holding)
            transaction.admission.touch(key)
            healed.append(stray_holder(key, job.id, job.state))
    return healed


def _waiters(transaction: Transaction, key: str) -> list[str]:
    """Offering a key that was not touched must find nothing to do."""
    queues = list(transaction.store.waiting.get(key, {}))
    if transaction.admission.is_timed(key):
        return _timer(transaction, key, queues)
    healed: list[str] = []
    for queue in queues:
        head = transaction.ledger.waiters(key, queue, 1)[0]
        if transaction.admission.has_room_for(head, key, queue):
            transaction.admission.touch(key)
            healed.append(forgotten_waiters(key, queue, head.id))
    return healed


def _timer(transaction: Transaction, key: str, queues: list[str]) -> list[str]:
    """A rate's waiters are offered when its timer rings: there must be one, and it must not ring too late."""
    due, armed = transaction.admission.timer_of(key, queues), transaction.store.timers.get(key)
    if due is None or (armed is not None and armed <= max(due, transaction.now)):
        return []
    transaction.admission.touch(key)
    return [late_timer(key)]
