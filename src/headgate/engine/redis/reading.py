"""What scripts answer about the store, as the contract's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from headgate.engine.contract import (
    Facts,
    JobView,
    QueueStatus,
    WorkerStatus,
)
from headgate.engine.redis.records import or_none, read_job, read_limit, read_override, read_worker
from headgate.engine.redis.standing import holders_of, learn_of, read_holders, with_tokens
from headgate.engine.redis.store import Store
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.reading import MOST_HOLDERS, Serving, queue_statuses
from headgate.engine.rules.reading import facts as put_together
from headgate.engine.rules.status import key_status
from headgate.job import Job, JobState
from headgate.keys import Key, Use

Row = list[Any]


def book_of(rows: Row) -> RuleBook:
    """A rule book as a script packed it."""
    book = RuleBook()
    limits, overrides, keys = rows
    for limit in map(read_limit, limits):
        book.limits[limit.name] = limit
    for override in map(read_override, overrides):
        book.overrides[override.name, override.value, override.tenant] = override
    for key in keys:
        learn_of(book, *key)
    return book


def counted(answers: Iterable[Row]) -> tuple[dict[tuple[str, str], int], set[str]]:
    """Jobs per (queue, state), and the paused queues."""
    counts: Counter[tuple[str, str]] = Counter()
    paused: set[str] = set()
    for flat, names in answers:
        paused.update(names)
        for field, number in zip(flat[::2], flat[1::2], strict=True):
            state, _, queue = field.partition(":")
            counts[queue, state] += int(number)
    return counts, paused


async def queues(store: Store) -> list[QueueStatus]:
    """Every queue with unfinished jobs, or paused. A call looks at the ready jobs of so many queues."""
    first = await store.answers("queues", False)
    answers = list(first)
    for partition, answer in zip(store.partitions, first, strict=True):
        while answer[3]:
            answer, _ = await store.one(partition, "queues", answer[3])
            answers.append(answer)
    oldest: dict[str, int] = {}
    for _, _, dues, _ in answers:
        for queue, due in zip(dues[::2], dues[1::2], strict=True):
            oldest[queue] = min(due, oldest.get(queue, due))
    return queue_statuses(*counted(row[:2] for row in first), oldest)


def workers(answers: Sequence[Row]) -> list[WorkerStatus]:
    """The registered workers; what they run is summed over the partitions."""
    found: dict[str, WorkerStatus] = {}
    for id, record, lease_until, running in (row for answer in answers for row in answer):
        worker, registered_at = read_worker(id, record)
        before = found[id].running if id in found else 0
        found[id] = WorkerStatus(worker, registered_at, lease_until, before + running)
    return [found[id] for id in sorted(found)]


async def explain(store: Store, id: str, now: int | None) -> Facts | None:
    """Why a job is where it is; None if no partition has it."""
    answers = await store.all("explain", [id], now)
    for partition, (answer, raw) in zip(store.partitions, answers, strict=True):
        if answer is not False:
            job = read_job(raw[0])
            if answer[3] is False and job.waiting_on is not None:
                answer[3] = await holders_of(store, partition, job.waiting_on, MOST_HOLDERS, now)
            return _facts(answer, job)
    return None


def _facts(answer: Row, job: Job) -> Facts:
    book, held, waiting, holders, offered, place, earliest, paused, live, now, weight, tokens = answer
    key = job.waiting_on
    return put_together(
        job,
        None if key is None else with_tokens(key_status(book_of(book), Key.of(key), held, waiting), tokens),
        holders=read_holders(holders),
        offered=offered,
        place=or_none(place),
        earliest=or_none(earliest),
        paused=bool(paused),
        live=[Serving(None if queues is False else queues, tasks) for tasks, queues in live],
        now=now,
        weight=None if weight is False else float(weight),
    )


def view(row: Row) -> JobView:
    """An unfinished job."""
    (
        id, state, queue, task, priority, seq, due, uses, waiting_on, offered_by, refusals, worker, attempt, tries,
        aside, suspicion, lost, tag, share, start_by,
    ) = row  # fmt: skip
    return JobView(
        id=id, state=JobState(state), queue=queue, task=task, order=(priority, seq), due=due,
        uses=tuple(Use(key, units, or_none(number)) for key, units, number in uses), waiting_on=or_none(waiting_on),
        offered_by=or_none(offered_by), refusals=or_none(refusals), worker=or_none(worker), attempt=attempt,
        tries=tries, set_aside=bool(aside),
        suspicion=suspicion, lost=lost, tag=tag, share=or_none(share), start_by=or_none(start_by),
    )  # fmt: skip
