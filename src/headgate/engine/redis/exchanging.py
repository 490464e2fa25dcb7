"""Exchanges: what goes to which partition, and what comes back from all of them.

A report goes to the partition its job was claimed from, which this process remembers; one that it does not know goes to
all, and counts as refused only if all refuse it. What a worker wants is divided among the partitions, beginning with
another one each time, so that none is served before the others for ever. One call per partition, all at once; where
there was less to want than there are partitions, those that were passed over are asked for what is still wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, assert_never

from headgate.engine.contract import (
    Exchanged,
    Failed,
    Progress,
    Released,
    Report,
    Snoozed,
    Stopped,
    Succeeded,
)
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.records import or_false, or_none, read_attempt
from headgate.engine.redis.store import Store

Known = tuple[str, int]


class Exchanges:
    """Remembers which partition each attempt came from."""

    def __init__(self) -> None:
        self._homes: dict[Known, int] = {}
        self._turn = 0

    async def exchange(
        self,
        store: Store,
        worker: str,
        reports: Sequence[Report],
        want: int,
        queues: Sequence[str] | None,
        now: int | None,
    ) -> Exchanged:
        """One exchange, over however many partitions there are."""
        served = or_false(queues if queues is None else list(queues))
        if len(store.partitions) == 1:
            given = (worker, packed_reports(reports), want, served)
            answer, raw = await store.one(store.partitions[0], "exchange", given, now=now)
            return _exchanged(answer, raw)
        shares = self._shares(want, len(store.partitions))
        mail = self._sorted(reports, len(store.partitions))

        async def ask(partition: Partition, reports: Sequence[Report], share: int) -> Exchanged:
            given = (worker, packed_reports(reports), share, served)
            return _exchanged(*await store.one(partition, "exchange", given, now=now))

        order = store.partitions[self._turn :] + store.partitions[: self._turn]
        passed = [partition for partition in order if want > 0 and shares[partition.number] == 0]
        each = await _all(ask(p, mail[p.number], shares[p.number]) for p in store.partitions)
        refused = self._refused(each, reports)
        self._remember(store.partitions, each)
        while passed and (missing := want - sum(len(one.attempts) for one in each)) > 0:
            asked, passed = passed[:missing], passed[missing:]
            more = await _all(ask(partition, (), 1) for partition in asked)
            self._remember(asked, more)
            each, shares = each + more, shares + [1] * len(asked)
            served_last = [
                partition.number for partition, one in zip(asked, more, strict=True) if one.attempts
            ]
            self._turn = (served_last[-1] + 1) % len(store.partitions) if served_last else self._turn
        return _together(each, shares, refused, want)

    def _shares(self, want: int, partitions: int) -> list[int]:
        """What cannot be divided goes to those whose turn it is."""
        share, rest = divmod(max(want, 0), partitions)
        first, self._turn = self._turn, (self._turn + rest) % partitions
        return [share + ((number - first) % partitions < rest) for number in range(partitions)]

    def _sorted(self, reports: Sequence[Report], partitions: int) -> list[list[Report]]:
        mail: list[list[Report]] = [[] for _ in range(partitions)]
        for report in reports:
            home = self._homes.get((report.job, report.attempt))
            for box in mail if home is None else [mail[home]]:
                box.append(report)
        return mail

    def _remember(self, partitions: Sequence[Partition], each: Sequence[Exchanged]) -> None:
        for partition, exchanged in zip(partitions, each, strict=True):
            self._homes.update(
                {(attempt.job, attempt.number): partition.number for attempt in exchanged.attempts}
            )

    def _refused(self, each: Sequence[Exchanged], reports: Sequence[Report]) -> tuple[Known, ...]:
        refused: list[Known] = []
        for report in reports:
            known = (report.job, report.attempt)
            home = self._homes.get(known)
            asked = each if home is None else [each[home]]
            if all(known in one.refused for one in asked):
                refused.append(known)
            if not isinstance(report, Progress):
                self._homes.pop(known, None)
        return tuple(refused)


async def _all(calls: Iterable[Awaitable[Exchanged]]) -> list[Exchanged]:
    """All of them. When one has failed, none is under way any more: a job that it claimed afterwards would be nobody's,
    since the worker looks for such jobs as soon as it hears of the failure."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _together(
    each: Sequence[Exchanged], shares: Sequence[int], refused: tuple[Known, ...], want: int
) -> Exchanged:
    attempts = [attempt for one in each for attempt in one.attempts]
    filled = any(len(one.attempts) == share > 0 for one, share in zip(each, shares, strict=True))
    times = [one.next_due for one in each if one.next_due is not None]
    return Exchanged(
        attempts=tuple(attempts),
        refused=refused,
        cancelling=tuple(dict.fromkeys(id for one in each for id in one.cancelling)),
        next_due=min(times, default=None),
        more=any(one.more for one in each) or (filled and len(attempts) < want),
        now=max(one.now for one in each),
        set_aside=tuple(dict.fromkeys(task for one in each for task in one.set_aside)),
    )


def _exchanged(answer: Sequence[Any], raw: Sequence[bytes]) -> Exchanged:
    ids, refused, cancelling, next_due, more, now, set_aside = answer
    parts = iter(raw)
    return Exchanged(
        attempts=tuple(
            read_attempt(id, record, spec, now) for id, record, spec in zip(ids, parts, parts, strict=True)
        ),
        refused=tuple((job, attempt) for job, attempt in refused),
        cancelling=tuple(cancelling),
        next_due=or_none(next_due),
        more=more,
        now=now,
        set_aside=tuple(set_aside),
    )


def packed_reports(reports: Sequence[Report]) -> list[Any]:
    """Reports as scripts read them, flat: five values each."""
    return [value for report in reports for value in _packed(report)]


def _packed(report: Report) -> tuple[Any, ...]:
    """Kind, job, attempt, value, retry_in."""
    match report:
        case Succeeded():
            return "succeeded", report.job, report.attempt, report.result, False
        case Failed():
            return "failed", report.job, report.attempt, report.error, or_false(report.retry_in)
        case Snoozed():
            return "snoozed", report.job, report.attempt, report.delay, False
        case Stopped():
            return "stopped", report.job, report.attempt, or_false(report.error), False
        case Released():
            return "released", report.job, report.attempt, False, False
        case Progress():
            return "progress", report.job, report.attempt, report.value, False
        case _:
            assert_never(report)
