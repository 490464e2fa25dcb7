"""What every engine shows, put together from what it read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from headgate.engine.contract import Facts, Holder, KeyStatus, LimitStatus, QueueStatus, Waiter
from headgate.engine.rules.admission import UNLIMITED, Cap, Rule
from headgate.engine.rules.status import with_tokens
from headgate.job import Job
from headgate.rates import Meter, Pace

MOST_HOLDERS = 10
"""Holders of a key that an explanation names."""
UNFINISHED = ("scheduled", "ready", "waiting", "running")
NOTHING: Mapping[str, int] = {}


def queue_statuses(
    counts: Mapping[tuple[str, str], int],
    paused: Collection[str],
    oldest: Mapping[str, int] = NOTHING,
    partial: Collection[str] | None = (),
) -> list[QueueStatus]:
    """Every queue with unfinished jobs, or paused; `counts` are jobs by queue and state, `oldest` the first due time
    of each queue's ready jobs, `partial` the queues whose jobs were not all counted, None if that is so of any."""
    names = {queue for (queue, state), count in counts.items() if count and state in UNFINISHED} | {*paused}
    found: list[QueueStatus] = []
    for name in sorted(names):
        scheduled, ready, waiting, running = (counts.get((name, state), 0) for state in UNFINISHED)
        exact = partial is not None and name not in partial
        found.append(
            QueueStatus(name, name in paused, scheduled, ready, waiting, running, oldest.get(name), exact)
        )
    return found


def error_contains(error: str | None, text: str) -> bool:
    """Whether the first line of a job's error contains a text."""
    return error is not None and text in error.partition("\n")[0]


class Serving(NamedTuple):
    """What a live worker serves (None: every queue) and knows."""

    queues: Collection[str] | None
    tasks: Collection[str]


def facts(
    job: Job,
    limit: LimitStatus | None,
    *,
    holders: Iterable[Holder] = (),
    offered: int = 0,
    place: int | None = None,
    earliest: int | None = None,
    paused: bool,
    live: Iterable[Serving],
    now: int,
    weight: float | None = None,
) -> Facts:
    """Why a job is where it is; `limit` and what follows are of the key that it waits on."""
    serving = [worker for worker in live if worker.queues is None or job.queue in worker.queues]
    return Facts(
        job=job, limit=limit, holders=tuple(holders), offered=offered, place=place, earliest=earliest, paused=paused,
        serving=len(serving), knowing=sum(job.task in worker.tasks for worker in serving), now=now,
        weight=weight,
    )  # fmt: skip


def earliest(rule: Rule, meter: Callable[[], Meter], units: int, now: int) -> int | None:
    """When a rate has so many tokens; None where no time will help, or none is needed."""
    if isinstance(rule, Cap):
        return rule.opens_at(now)
    if not rule.limit:
        return None
    return meter().when(rule, units, now)


def key_status(
    status: LimitStatus,
    rule: Rule,
    meter: Callable[[], Meter],
    now: int,
    *,
    holders: tuple[Holder, ...],
    waiters: tuple[Waiter, ...],
) -> KeyStatus:
    """A key with what it has left: nothing where a limit was lowered under what runs (rule 11)."""
    free = _free(rule, status.held, meter, now)
    return KeyStatus(
        status=with_tokens(status, rule, meter, now),
        free=free,
        earliest=earliest(rule, meter, 1, now) if free == 0 else None,
        holders=holders,
        waiters=waiters,
    )


def _free(rule: Rule, held: int, meter: Callable[[], Meter], now: int) -> int | None:
    if isinstance(rule, Cap):
        most = rule.at(now)
        return None if most is None else max(most - held, 0)
    if rule.limit is None:
        return None
    return meter().free(rule, now) if rule.limit else 0


def room(free: Callable[[str], int], keys: Iterable[str]) -> dict[str, int | None]:
    """The room of each key for the audit; None where nothing limits."""
    rooms = {key: free(key) for key in keys}
    return {key: None if number == UNLIMITED else number for key, number in rooms.items()}


def most_tokens(rule: Callable[[str], Rule], keys: Iterable[str]) -> dict[str, int]:
    """The most tokens that the rates among the keys can have."""
    rules: Sequence[tuple[str, Rule]] = [(key, rule(key)) for key in keys]
    return {key: pace.most for key, pace in rules if isinstance(pace, Pace) and pace.limit is not None}
