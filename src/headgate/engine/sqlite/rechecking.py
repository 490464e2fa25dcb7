"""Self-healing (rule 20): one slice of the keys in use, looked at again. What it finds is a defect's trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from headgate.engine.contract import Rechecked
from headgate.engine.rules.mended import forgotten_waiters, late_timer, lost_worker, stray_holder
from headgate.engine.sqlite.claim_context import unreadable_workers
from headgate.engine.sqlite.connection import Values
from headgate.engine.sqlite.garbled import shown
from headgate.engine.sqlite.key_ranges import just_after, parsed
from headgate.engine.sqlite.rows import to_json
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction


def recheck(transaction: Transaction, after: str | None, most: int) -> Rechecked:
    """Mend the next slice of keys; the first slice also loses attempts of workers that are not registered."""
    healed = [] if after is not None else _orphans(transaction)
    keys, rest = _slice(transaction, after, most)
    strays = _strays(transaction, keys)
    for found in strays.values():
        for key, seq, _, _ in found:
            transaction.ledger.drop_reservation(key, seq)
            transaction.admission.touch(key)
    readable = _end_garbled(transaction, keys)
    _end_waiters_on(transaction, transaction.garbled_keys)
    transaction.ledger.expect(readable)
    for key in keys:
        healed += [stray_holder(key, id, state) for _, _, id, state in strays[key]]
        if key in readable:
            healed += _waiters(transaction, key)
    return Rechecked(tuple(healed), rest)


def healthy(after: str | None, most: int) -> Callable[[Transaction], Rechecked | None]:
    """A look without a transaction: in a healthy store there is nothing to mend."""

    def look(transaction: Transaction) -> Rechecked | None:
        keys, rest = _slice(transaction, after, most)
        if (
            transaction.garbled_keys
            or not all(parsed(key) for key in keys)
            or any(_strays(transaction, keys).values())
        ):
            return None
        if after is None and (
            transaction.execute(sql("orphans")).fetchall() or unreadable_workers(transaction)
        ):
            return None
        transaction.ledger.mend = _refuse
        try:
            transaction.ledger.expect(keys)
            return None if any(_waiters(transaction, key) for key in keys) else Rechecked((), rest)
        except _Garbled:
            return None

    return look


class _Garbled(Exception):
    """A row has to be mended."""


def _refuse(seq: int) -> None:
    raise _Garbled


def _slice(transaction: Transaction, after: str | None, most: int) -> tuple[list[str], str | None]:
    start = "" if after is None else just_after(after)
    keys = sorted({*transaction.waiting(start, None, most + 1), *transaction.holding(start, None, most + 1)})
    return keys[:most], keys[most - 1] if len(keys) > most else None


def _orphans(transaction: Transaction) -> list[str]:
    """Attempts of workers that are not registered, or whose row cannot be read."""
    healed: list[str] = []
    unreadable = unreadable_workers(transaction)
    for worker in [*unreadable, *(worker for (worker,) in transaction.execute(sql("orphans")).fetchall())]:
        rows = transaction.execute(sql("running_pairs"), (worker,)).fetchall()
        healed += [lost_worker(shown(id), shown(worker)) for _, id, _ in rows]
        transaction.lose_worker(worker)
    transaction.ledger.flush()
    return healed


def _strays(transaction: Transaction, keys: Sequence[str]) -> defaultdict[str, list[Values]]:
    found: defaultdict[str, list[Values]] = defaultdict(list)
    for row in transaction.execute(sql("stray_holders"), (to_json(keys),)).fetchall():
        found[row[0]].append(row)
    return found


def _end_garbled(transaction: Transaction, keys: Sequence[str]) -> list[str]:
    """The keys that make sense; jobs that wait on anything else cannot be read."""
    _end_waiters_on(transaction, [key for key in keys if parsed(key) is None])
    return [key for key in keys if parsed(key) is not None]


def _end_waiters_on(transaction: Transaction, keys: Iterable[str | bytes]) -> None:
    for key in keys:
        for (seq,) in transaction.execute(sql("waiting_on"), (key,)).fetchall():
            transaction.end_garbled(seq)


def _waiters(transaction: Transaction, key: str) -> list[str]:
    """Offering a key that was not touched must find nothing to do, unless its limit was changed a moment ago."""
    queues = transaction.ledger.queues_waiting(key)
    if transaction.admission.is_timed(key):
        return _timer(transaction, key, queues)
    healed: list[str] = []
    for queue in queues:
        head = transaction.ledger.waiters(key, queue, 1)[0]
        if transaction.admission.has_room_for(head, key, queue) and not _unsettled(transaction, key):
            transaction.admission.touch(key)
            healed.append(forgotten_waiters(key, queue, head.id))
    return healed


def _unsettled(transaction: Transaction, key: str) -> bool:
    known = parsed(key)
    return known is not None and known.name in transaction.book.unsettled


def _timer(transaction: Transaction, key: str, queues: Sequence[str]) -> list[str]:
    """A timed key's waiters are offered when its timer rings: there must be one, and it must not ring too late."""
    due, armed = transaction.admission.timer_of(key, queues), transaction.execute(sql("timer"), (key,)).get
    if (
        due is None
        or (armed is not None and armed <= max(due, transaction.now))
        or _unsettled(transaction, key)
    ):
        return []
    transaction.admission.touch(key)
    return [late_timer(key)]
