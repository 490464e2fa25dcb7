"""Self-healing (rule 20): one slice of the keys in use, looked at again. What it finds is a defect's trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from headgate.engine.contract import Rechecked
from headgate.engine.rules.mended import forgotten_waiters, late_timer, lost_worker, stray_holder
from headgate.engine.sqlite.connection import Values
from headgate.engine.sqlite.garbled import shown
from headgate.engine.sqlite.keyspace import just_after, parsed
from headgate.engine.sqlite.rows import to_json
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step
from headgate.engine.sqlite.turn import unreadable_workers
from headgate.keys import is_rate


def recheck(step: Step, after: str | None, most: int) -> Rechecked:
    """Mend the next slice of keys; the first slice also loses attempts of workers that are not registered."""
    healed = [] if after is not None else _orphans(step)
    keys, rest = _slice(step, after, most)
    strays = _strays(step, keys)
    for found in strays.values():
        for key, seq, _, _ in found:
            step.ledger.drop_reservation(key, seq)
            step.admission.touch(key)
    readable = _end_garbled(step, keys)
    _end_waiters_on(step, step.garbled_keys)
    step.ledger.expect(readable)
    for key in keys:
        healed += [stray_holder(key, id, state) for _, _, id, state in strays[key]]
        if key in readable:
            healed += _waiters(step, key)
    return Rechecked(tuple(healed), rest)


def healthy(after: str | None, most: int) -> Callable[[Step], Rechecked | None]:
    """A look without a transaction: in a healthy store there is nothing to mend."""

    def look(step: Step) -> Rechecked | None:
        keys, rest = _slice(step, after, most)
        if step.garbled_keys or not all(parsed(key) for key in keys) or any(_strays(step, keys).values()):
            return None
        if after is None and (step.execute(sql("orphans")).fetchall() or unreadable_workers(step)):
            return None
        step.ledger.mend = _refuse
        try:
            step.ledger.expect(keys)
            return None if any(_waiters(step, key) for key in keys) else Rechecked((), rest)
        except _Garbled:
            return None

    return look


class _Garbled(Exception):
    """A row has to be mended."""


def _refuse(seq: int) -> None:
    raise _Garbled


def _slice(step: Step, after: str | None, most: int) -> tuple[list[str], str | None]:
    start = "" if after is None else just_after(after)
    keys = sorted({*step.waiting(start, None, most + 1), *step.holding(start, None, most + 1)})
    return keys[:most], keys[most - 1] if len(keys) > most else None


def _orphans(step: Step) -> list[str]:
    """Attempts of workers that are not registered, or whose row cannot be read."""
    healed: list[str] = []
    unreadable = unreadable_workers(step)
    for worker in [*unreadable, *(worker for (worker,) in step.execute(sql("orphans")).fetchall())]:
        rows = step.execute(sql("running_pairs"), (worker,)).fetchall()
        healed += [lost_worker(shown(id), shown(worker)) for _, id, _ in rows]
        step.lose_worker(worker)
    step.ledger.flush()
    return healed


def _strays(step: Step, keys: Sequence[str]) -> defaultdict[str, list[Values]]:
    found: defaultdict[str, list[Values]] = defaultdict(list)
    for row in step.execute(sql("stray_holders"), (to_json(keys),)).fetchall():
        found[row[0]].append(row)
    return found


def _end_garbled(step: Step, keys: Sequence[str]) -> list[str]:
    """The keys that make sense; jobs that wait on anything else cannot be read."""
    _end_waiters_on(step, [key for key in keys if parsed(key) is None])
    return [key for key in keys if parsed(key) is not None]


def _end_waiters_on(step: Step, keys: Iterable[str | bytes]) -> None:
    for key in keys:
        for (seq,) in step.execute(sql("waiting_on"), (key,)).fetchall():
            step.end_garbled(seq)


def _waiters(step: Step, key: str) -> list[str]:
    """Offering a key that was not touched must find nothing to do, unless its limit was changed a moment ago."""
    queues = step.ledger.queues_waiting(key)
    if is_rate(key):
        return _timer(step, key, queues)
    healed: list[str] = []
    for queue in queues:
        head = step.ledger.waiters(key, queue, 1)[0]
        if step.admission.has_room_for(head, key, queue) and not _unsettled(step, key):
            step.admission.touch(key)
            healed.append(forgotten_waiters(key, queue, head.id))
    return healed


def _unsettled(step: Step, key: str) -> bool:
    known = parsed(key)
    return known is not None and known.name in step.book.unsettled


def _timer(step: Step, key: str, queues: Sequence[str]) -> list[str]:
    """A rate's waiters are offered when its timer rings: there must be one, and it must not ring too late."""
    due, armed = step.admission.timer_of(key, queues), step.execute(sql("timer"), (key,)).get
    if due is None or (armed is not None and armed <= max(due, step.now)) or _unsettled(step, key):
        return []
    step.admission.touch(key)
    return [late_timer(key)]
