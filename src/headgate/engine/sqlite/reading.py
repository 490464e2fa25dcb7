"""What the SQLite engine shows: lists, counts, facts, snapshots. Nothing here changes anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from headgate.engine.contract import (
    Facts,
    Filter,
    Holder,
    JobPage,
    JobView,
    KeyInUse,
    LimitStatus,
    Snapshot,
    Worker,
    WorkerStatus,
)
from headgate.engine.rules.reading import (
    MOST_HOLDERS,
    Serving,
    earliest,
    facts,
    most_tokens,
    room,
)
from headgate.engine.rules.status import key_status, with_tokens
from headgate.engine.rules.stored import UNKNOWN_TASK, Stored
from headgate.engine.sqlite.claim_context import unreadable_workers
from headgate.engine.sqlite.garbled import shown, shown_row
from headgate.engine.sqlite.key_ranges import LAST, just_after, keys_of, parsed
from headgate.engine.sqlite.rows import GARBLED, Unreadable, Values, read_uses, shown_state, stored, to_json
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction
from headgate.job import Job, JobState
from headgate.keys import Key

END_OF_TIME = 1 << 62
LOOKED_AT = 5_000
"""How many of the newest jobs are looked at before those of a state are taken from its index."""
CANDIDATES = 5_000
"""How many of these are looked at in one go."""

_read_tasks = msgspec.json.Decoder(frozenset[str]).decode
_read_queues = msgspec.json.Decoder(tuple[str, ...]).decode


def get(transaction: Transaction, ids: Sequence[str]) -> list[Job | None]:
    """Whole jobs with their history."""
    return [job.shown() if (job := transaction.look("job_by_id", id)) else None for id in ids]


def states(transaction: Transaction, ids: Sequence[str]) -> list[JobState | None]:
    """Only their states."""
    rows = transaction.execute(sql("states"), (to_json(ids),)).fetchall()
    found = {id: shown_state(state) for id, state in rows}
    return [found.get(id) for id in ids]


def find(transaction: Transaction, wanted: Filter, limit: int, after: str | None) -> list[Job]:
    """Jobs that match, newest first.

    The newest are looked at one by one. Where a state is asked for that few of them have, the jobs of this state are
    then taken from its index.
    """
    before = _before(transaction, after)
    filter = _filter(transaction, wanted)
    if wanted.waiting_on is not None and wanted.ids is None:
        return _of_waiters(transaction, filter, before, limit)
    if wanted.states is None or wanted.ids is not None:
        return [
            _found(row) for row in transaction.execute(sql("find"), (*filter, before, limit, 0)).fetchall()
        ]
    newest = transaction.execute(sql("last_seq")).get or 0
    start = max(0, min(before, newest + 1) - LOOKED_AT)
    rows = transaction.execute(sql("find"), (*filter, before, limit, start)).fetchall()
    before = start
    while len(rows) < limit and before > 0:
        some = [
            seq
            for (seq,) in transaction.execute(sql("in_states"), (filter[0], before, CANDIDATES)).fetchall()
        ]
        rows += transaction.execute(sql("find_among"), (*filter, to_json(some), limit - len(rows))).fetchall()
        before = some[-1] if len(some) == CANDIDATES else 0
    return [_found(row) for row in rows]


def _before(transaction: Transaction, after: str | None) -> int:
    """The arrival number before which to look."""
    if after is None:
        return END_OF_TIME
    return transaction.execute(sql("seq_of"), (after,)).get or END_OF_TIME


def _of_waiters(transaction: Transaction, filter: Values, before: int, limit: int) -> list[Job]:
    """Those of the jobs that wait on some keys."""
    found: list[Job] = []
    while len(found) < limit and before > 0:
        some = [
            seq
            for (seq,) in transaction.execute(sql("waiting_for"), (filter[4], before, CANDIDATES)).fetchall()
        ]
        found += _among(transaction, filter, some, limit - len(found))
        before = some[-1] if len(some) == CANDIDATES else 0
    return found


def _among(transaction: Transaction, filter: Values, some: list[int], limit: int) -> list[Job]:
    rows = transaction.execute(sql("find_among"), (*filter, to_json(some), limit)).fetchall()
    return [_found(row) for row in rows]


def find_page(transaction: Transaction, wanted: Filter, limit: int, after: str | None, looks: int) -> JobPage:
    """Jobs that match among the next so many. Where few jobs have the state that is asked for, only these are looked
    at."""
    if wanted.ids is not None or wanted.waiting_on is not None:
        found = find(transaction, wanted, limit, after)
        return JobPage(tuple(found), found[-1].id if len(found) == limit else None)
    before = _before(transaction, after)
    if wanted.states is None or JobState.SUCCEEDED in wanted.states:
        rows = transaction.execute(sql("newest"), (before, looks)).fetchall()
    else:
        rows = transaction.execute(sql("in_states"), (to_json(wanted.states), before, looks)).fetchall()
    some = [seq for (seq,) in rows]
    found = _among(transaction, _filter(transaction, wanted), some, limit)
    if len(found) == limit:
        return JobPage(tuple(found), found[-1].id)
    rest = transaction.execute(sql("id_of"), (some[-1],)).get if len(some) == looks else None
    return JobPage(tuple(found), rest)


def _found(row: Values) -> Job:
    return msgspec.structs.replace(stored(row).shown(), history=())


def count(transaction: Transaction, wanted: Filter) -> int:
    """How many match."""
    return transaction.execute(sql("count"), _filter(transaction, wanted)).get


def _filter(transaction: Transaction, wanted: Filter) -> Values:
    return (
        None if wanted.states is None else to_json(wanted.states),
        wanted.queue,
        wanted.task,
        wanted.tenant,
        None if wanted.waiting_on is None else to_json(_waited_for(transaction, wanted.waiting_on)),
        None if wanted.ids is None else to_json(wanted.ids),
        wanted.unique,
        wanted.error,
        wanted.error and len(wanted.error),
        wanted.ended_since,
        wanted.ended_until,
    )


def _waited_for(transaction: Transaction, text: str) -> list[str]:
    """The keys with this text, of any tenant, that have waiters; for a bare name all keys of the limit."""
    name, equals, value = text.partition("=")
    found: list[str] = []
    start: str | None = ""
    while start is not None:
        keys, start = keys_of(transaction.waiting, name, value if equals else None, start=start)
        found += keys
    return found


def keys_in_use(
    transaction: Transaction, name: str, computed_before: int | None, after: str | None, limit: int
) -> list[KeyInUse]:
    """The keys of one limit that are held or waited for, and whose number is old."""
    found: list[KeyInUse] = []
    start: str | None = "" if after is None else just_after(after)
    while start is not None and len(found) < limit:
        keys, start = _used(transaction, name, start, limit)
        for key in keys[: limit - len(found)] if computed_before is None else keys:
            numbers = transaction.book.numbers_of(key)
            at = numbers and numbers.computed_at
            if (computed_before is None or (at or 0) < computed_before) and len(found) < limit:
                held, waiting = transaction.execute(sql("key_counts"), (key,)).fetchall()[0]
                found.append(KeyInUse(key, transaction.book.number(Key.of(key)), held, waiting, at))
    return found


def _used(transaction: Transaction, name: str, start: str, most: int) -> tuple[list[str], str | None]:
    """The next keys of a limit that are held or waited for, and where to go on."""
    held = keys_of(transaction.holding, name, start=start, most=most)
    waiting = keys_of(transaction.waiting, name, start=start, most=most)
    rest = min((page.rest for page in (held, waiting) if page.rest is not None), default=None)
    keys = sorted({*held.keys, *waiting.keys})
    return [key for key in keys if rest is None or key < rest], rest


def workers(transaction: Transaction) -> list[WorkerStatus]:
    """The registered workers, without those whose rows cannot be read: they are as good as lost."""
    unreadable = unreadable_workers(transaction)
    return [
        _worker(row) for row in transaction.execute(sql("workers")).fetchall() if row[0] not in unreadable
    ]


def _worker(row: Values) -> WorkerStatus:
    id, tasks, queues, lease, host, pid, concurrency, threaded, registered_at, lease_until, running = (
        shown_row(row)
    )
    served = None if queues is None else _read_queues(queues)
    worker = Worker(id, _read_tasks(tasks), served, lease, host, pid, concurrency, _read_tasks(threaded))
    return WorkerStatus(worker, registered_at, lease_until, running)


def explain(transaction: Transaction, id: str) -> Facts | None:
    """Why a job is where it is."""
    job = transaction.look("job_by_id", id)
    if job is None:
        return None
    key, shown = None if isinstance(job, Unreadable) else job.waiting_on, job.shown()
    return facts(
        shown,
        None if key is None else _with_tokens(transaction, key),
        holders=() if key is None else holders_of(transaction, key, MOST_HOLDERS),
        offered=0 if key is None else transaction.ledger.offered(key, job.queue),
        place=None if key is None else _place(transaction, job),
        earliest=None if key is None else _earliest(transaction, key, job.units),
        paused=(job.queue,) in transaction.execute(sql("paused")).fetchall(),
        live=_live(transaction),
        now=transaction.now,
        weight=None if shown.share is None else transaction.book.weight(shown.share),
    )


def _with_tokens(transaction: Transaction, key: str) -> LimitStatus:
    ledger = transaction.ledger
    status = _status(transaction, key)
    return with_tokens(status, ledger.rule(key), lambda: ledger.meter(key), transaction.now)


def _live(transaction: Transaction) -> list[Serving]:
    unreadable = unreadable_workers(transaction)
    rows = transaction.execute(sql("live_workers"), (transaction.now,)).fetchall()
    return [
        Serving(None if queues is None else _read_queues(queues), _read_tasks(tasks))
        for id, queues, tasks in rows
        if id not in unreadable
    ]


def _status(transaction: Transaction, key: str) -> LimitStatus:
    held, waiting = transaction.execute(sql("key_counts"), (key,)).fetchall()[0]
    return key_status(transaction.book, Key.of(key), held, waiting)


def holders_of(transaction: Transaction, key: str, most: int) -> tuple[Holder, ...]:
    """What holds a key, longest first."""
    rows = map(shown_row, transaction.execute(sql("holders_of"), (key, most)).fetchall())
    return tuple(
        Holder(id, task, worker, since, bool(reserved), units)
        for id, task, worker, since, reserved, units in rows
    )


def _place(transaction: Transaction, job: Stored) -> int:
    return transaction.execute(sql("place"), (job.waiting_on, job.queue, *job.order)).get + 1


def _earliest(transaction: Transaction, key: str, units: int) -> int | None:
    ledger = transaction.ledger
    return earliest(ledger.rule(key), lambda: ledger.meter(key), units, transaction.now)


def snapshot(transaction: Transaction) -> Snapshot:
    """Everything that admission depends on."""
    views = tuple(
        _view(transaction, shown_row(row)) for row in transaction.execute(sql("unfinished")).fetchall()
    )
    holders: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    units: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for key, id, reserved, size in map(shown_row, transaction.execute(sql("all_holders")).fetchall()):
        holders[key][id] = bool(reserved)
        if size != 1:
            units[key][id] = size
    waited = {view.waiting_on for view in views if view.waiting_on is not None}
    used = {*holders, *waited, *(view.offered_by for view in views if view.offered_by is not None)}
    keys = {key for key in used if parsed(key) is not None}
    waited &= keys
    return Snapshot(
        jobs=views,
        holders=dict(holders),
        free=room(transaction.admission.free, keys),
        timers=dict(transaction.execute(sql("timers"))),
        workers=frozenset(id for (id,) in transaction.execute(sql("worker_ids")).fetchall()),
        now=transaction.now,
        most=most_tokens(transaction.book.rule, waited),
        unsettled=frozenset(_unsettled(transaction, waited)),
        units=dict(units),
        virtual={
            (shown(queue), priority): tag
            for queue, priority, tag in transaction.execute(sql("virtual_times")).fetchall()
        },
    )


def _unsettled(transaction: Transaction, waited: Iterable[str]) -> Iterable[str]:
    """Keys of changed limits that have yet to be looked at."""
    left = dict(transaction.execute(sql("unsettled")).fetchall())
    return [key for key in waited if key >= left.get(Key.of(key).name, LAST)] if left else []


def _view(transaction: Transaction, row: Values) -> JobView:
    (
        id, state, queue, task, priority, seq, due, uses, waiting_on, offered_by, refusals, worker, attempt, tries,
        set_aside, suspicion, lost, tag, share, start_by,
    ) = row  # fmt: skip
    try:
        own = read_uses(uses)
    except GARBLED:
        own = ()
    return JobView(
        id=id, state=JobState(state), queue=queue, task=task, order=(priority, seq), due=due,
        uses=transaction.book.uses(task, queue, own), waiting_on=waiting_on, offered_by=offered_by,
        refusals=refusals, worker=worker, attempt=attempt, tries=tries, set_aside=set_aside == UNKNOWN_TASK,
        suspicion=suspicion, lost=lost, tag=tag, share=share, start_by=start_by,
    )  # fmt: skip
