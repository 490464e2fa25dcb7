"""What the memory engine shows: lists, counts, facts, snapshots. Nothing here changes anything."""

from __future__ import annotations

from collections import Counter

from headgate.engine.contract import (
    Facts,
    Filter,
    Holder,
    JobView,
    KeyInUse,
    LimitStatus,
    QueueStatus,
    Snapshot,
    WorkerStatus,
)
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import MemoryStore
from headgate.engine.rules.admission import Admission
from headgate.engine.rules.reading import (
    MOST_HOLDERS,
    Serving,
    earliest,
    error_contains,
    facts,
    most_tokens,
    queue_statuses,
    room,
)
from headgate.engine.rules.status import all_status, key_status, with_tokens
from headgate.engine.rules.stored import UNKNOWN_TASK, Stored
from headgate.job import JobState
from headgate.keys import Key, is_rate
from headgate.rates import Pace


def matches(job: Stored, wanted: Filter) -> bool:
    """Whether a job fits a filter."""
    return (
        (wanted.states is None or job.state in wanted.states)
        and wanted.queue in (None, job.queue)
        and wanted.task in (None, job.task)
        and wanted.tenant in (None, job.tenant)
        and (wanted.waiting_on is None or _waits_on(job, wanted.waiting_on))
        and wanted.unique in (None, job.spec.unique)
        and (wanted.ids is None or job.id in wanted.ids)
        and (wanted.error is None or error_contains(job.error, wanted.error))
        and _ended_between(job, wanted.ended_since, wanted.ended_until)
    )


def _ended_between(job: Stored, since: int | None, until: int | None) -> bool:
    if since is None and until is None:
        return True
    at = job.ended_at if job.state.ended else None
    return at is not None and (since is None or at >= since) and (until is None or at < until)


def _waits_on(job: Stored, text: str) -> bool:
    if job.waiting_on is None:
        return False
    key = Key.of(job.waiting_on)
    return text in (key.text, key.name)


def held_counts(store: MemoryStore) -> dict[str, int]:
    """Units held per key."""
    return {key: store.held(key) for key in store.holders}


def waiting_counts(store: MemoryStore) -> dict[str, int]:
    """Waiters per key."""
    return {key: sum(len(line) for line in queues.values()) for key, queues in store.waiting.items()}


def limits(store: MemoryStore, name: str | None) -> list[LimitStatus]:
    """All limits and the keys of them that matter."""
    return all_status(store.book, held_counts(store), waiting_counts(store), name)


def keys_in_use(
    store: MemoryStore, name: str, computed_before: int | None = None, after: str | None = None
) -> list[KeyInUse]:
    """The keys of one limit that are held or waited for, and whose number is old."""
    held, waiting = held_counts(store), waiting_counts(store)
    keys = sorted(key for key in {*held, *waiting} if Key.of(key).name == name and key > (after or ""))
    if computed_before is not None:
        keys = [key for key in keys if (_computed_at(store, key) or 0) < computed_before]
    return [
        KeyInUse(
            key,
            store.book.number(Key.of(key)),
            held.get(key, 0),
            waiting.get(key, 0),
            _computed_at(store, key),
        )
        for key in keys
    ]


def _computed_at(store: MemoryStore, key: str) -> int | None:
    numbers = store.book.numbers.get(key)
    return numbers.computed_at if numbers else None


def queues(store: MemoryStore) -> list[QueueStatus]:
    """Every queue with unfinished jobs, or paused."""
    counts = Counter((job.queue, job.state.value) for job in store.jobs.values())
    oldest: dict[str, int] = {}
    for job in store.jobs.values():
        if job.state is JobState.READY:
            oldest[job.queue] = min(job.due, oldest.get(job.queue, job.due))
    return queue_statuses(counts, store.paused, oldest)


def workers(store: MemoryStore) -> list[WorkerStatus]:
    """The registered workers."""
    return [
        WorkerStatus(entry.worker, entry.registered_at, entry.lease_until, len(store.running.get(name, ())))
        for name, entry in sorted(store.workers.items())
    ]


def explain(store: MemoryStore, job: Stored, ledger: MemoryLedger, now: int) -> Facts:
    """Why a job is where it is."""
    key, line, limit = job.waiting_on, None, None
    if key is not None:
        line = store.waiting[key][job.queue]
        limit = with_tokens(status(store, key), ledger.rule(key), lambda: ledger.meter(key), now)
    live = [entry.worker for entry in store.workers.values() if entry.lease_until > now]
    return facts(
        job.shown(),
        limit,
        holders=() if key is None else holders(store, key, MOST_HOLDERS),
        offered=0 if key is None else ledger.offered(key, job.queue),
        place=None if line is None else line.place(job.order) + 1,
        earliest=None
        if key is None
        else earliest(ledger.rule(key), lambda: ledger.meter(key), job.units, now),
        paused=job.queue in store.paused,
        live=[Serving(worker.queues, worker.tasks) for worker in live],
        now=now,
        weight=None if job.spec.share is None else store.book.weight(job.spec.share),
    )


def status(store: MemoryStore, key: str) -> LimitStatus:
    """One key with how many hold it and wait for it."""
    waiting = sum(len(line) for line in store.waiting.get(key, {}).values())
    return key_status(store.book, Key.of(key), store.held(key), waiting)


def holders(store: MemoryStore, key: str, most: int) -> tuple[Holder, ...]:
    """What holds a key, longest first."""
    found = sorted(store.holders.get(key, {}).values(), key=lambda holding: (holding.since, holding.job.seq))
    return tuple(
        Holder(
            holding.job.id,
            holding.job.task,
            holding.job.worker,
            holding.since,
            holding.reserved,
            holding.units,
        )
        for holding in found[:most]
    )


def snapshot(store: MemoryStore, ledger: MemoryLedger, admission: Admission[Stored], now: int) -> Snapshot:
    """Everything that admission depends on."""
    keys = {*store.holders, *store.waiting, *(key for key, _ in store.offered)}
    unfinished = [job for job in store.jobs.values() if not job.state.ended]
    return Snapshot(
        jobs=tuple(_view(job, ledger) for job in sorted(unfinished, key=lambda job: job.seq)),
        holders={
            key: {id: holding.reserved for id, holding in held.items()} for key, held in store.holders.items()
        },
        free=room(admission.free, keys),
        timers=dict(store.timers),
        workers=frozenset(store.workers),
        now=now,
        most=most_tokens(ledger.rule, store.waiting),
        units=_larger_units(store),
        virtual=dict(store.virtual),
    )


def _larger_units(store: MemoryStore) -> dict[str, dict[str, int]]:
    """Holders' units where these are not one."""
    units = {
        key: {id: holding.units for id, holding in held.items() if holding.units != 1}
        for key, held in store.holders.items()
    }
    return {key: held for key, held in units.items() if held}


def _view(job: Stored, ledger: MemoryLedger) -> JobView:
    return JobView(
        id=job.id,
        state=job.state,
        queue=job.queue,
        task=job.task,
        order=(job.priority, job.seq),
        due=job.due,
        uses=tuple(ledger.uses(job)),
        waiting_on=job.waiting_on,
        offered_by=job.offered_by,
        refusals=job.refusals,
        worker=job.worker,
        attempt=job.attempt,
        tries=job.tries,
        set_aside=job.set_aside == UNKNOWN_TASK,
        suspicion=job.suspicion,
        lost=job.lost,
        tag=job.tag,
        share=job.spec.share,
        start_by=job.start_by,
    )


def next_due(store: MemoryStore) -> int | None:
    """When a sweep will next have work."""
    times = [entry.lease_until for entry in store.workers.values()]
    times += [override.until for override in store.book.overrides.values() if override.until is not None]
    times += [
        h.expires_at for held in store.holders.values() for h in held.values() if h.expires_at is not None
    ]
    times += list(store.timers.values())
    times += [weight.until for weight in store.book.weights.values() if weight.until is not None]
    times += [gate.open_at(store.book.number(Key.of(key))) for key, gate in store.book.gates.items()]
    if (first := store.starting.head()) is not None:
        times.append(first[0])
    if (head := store.scheduled.head()) is not None:
        times.append(head[0])
    return min(times, default=None)


def is_idle_rate(ledger: MemoryLedger, key: str, now: int) -> bool:
    """Whether a rate key's meter can be forgotten, also one that an earlier algorithm left."""
    rule, meter = ledger.rule(key), ledger.store.meters.get(key)
    return meter is None or not (is_rate(key) and isinstance(rule, Pace)) or meter.idle(rule, now)
