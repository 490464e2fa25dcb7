"""One partition of the store, as a worker sees it: registrations, leases, exchanges and sweeps of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from headgate.engine.contract import (
    Attempt,
    Beat,
    Done,
    Exchanged,
    Failed,
    Known,
    Lost,
    LostJob,
    Part,
    Progress,
    Rechecked,
    Released,
    Report,
    Resumed,
    Snoozed,
    Spent,
    Stopped,
    Succeeded,
    Swept,
    Throttled,
    Wake,
    Worker,
)
from headgate.engine.redis.rechecking import recheck
from headgate.engine.redis.records import or_false, or_none, try_attempt
from headgate.engine.rules.history import numbers_of

if TYPE_CHECKING:
    from headgate.engine.redis.calling import Partition
    from headgate.engine.redis.engine import RedisEngine


class RedisPart(Part):
    """Every verb is one script call on this partition's server, and on no other."""

    def __init__(self, engine: RedisEngine, number: int) -> None:
        self._engine = engine
        self._number = number
        self.name = f"partition {number}" if engine.target.partitions > 1 else ""

    @property
    def _partition(self) -> Partition:
        return self._engine.store.partitions[self._number]

    async def _ask(self, verb: str, given: Any, now: int | None) -> Any:
        engine = self._engine
        return (await engine.store.one(self._partition, verb, given, now=engine.now(now)))[0]

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        row = [
            worker.id, sorted(worker.tasks), or_false(worker.queues), worker.lease, worker.host, worker.pid,
            worker.concurrency, sorted(worker.threaded),
        ]  # fmt: skip
        return await self._ask("register", row, now)

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        rows = [[one.at, one.queue, one.task, numbers_of(one)] for one in done]
        cancelling, at = await self._ask("heartbeat", [worker, rows], now)
        return Beat(tuple(cancelling), at)

    async def retire(self, worker: str, *, now: int | None = None) -> None:
        while await self._ask("retire", [worker], now):
            pass

    async def exchange(
        self,
        worker: str,
        reports: Sequence[Report],
        want: int,
        queues: Sequence[str] | None = None,
        *,
        number: int | None = None,
        suspects: bool = True,
        threads: int | None = None,
        now: int | None = None,
    ) -> Exchanged:
        served = False if queues is None else list(queues)
        given = (worker, packed_reports(reports), want, served, or_false(number), suspects, or_false(threads))
        engine = self._engine
        answer, raw = await engine.store.one(self._partition, "exchange", given, now=engine.now(now))
        exchanged, unreadable = _exchanged(answer, raw)
        if unreadable:
            given = (worker, packed_reports(unreadable), 0, False, False, False, False)
            await engine.store.one(self._partition, "exchange", given, now=engine.now(now))
        return exchanged

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        flat = [value for pair in known for value in pair]
        alive, taken_back, cancelling, at = await self._ask("resume_worker", [worker, number, flat], now)
        still = tuple(pair for pair, is_alive in zip(known, alive, strict=True) if is_alive)
        return Resumed(still, taken_back, tuple(cancelling), at)

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        attempts, failed, more = 0, list[Sequence[str]](), True
        while more:
            lost, gone, more = await self._ask("report_lost", list(workers), now)
            attempts += lost
            failed += gone
        return Lost(attempts, _lost_jobs(failed))

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        return await recheck(self._engine.store, self._partition, after, most, self._engine.now(now))

    async def sweep(self, *, now: int | None = None) -> Swept:
        due, lost, offered, expired, more, next_due, at, failed = await self._ask("sweep", [], now)
        return Swept(due, lost, offered, expired, more, or_none(next_due), at, _lost_jobs(failed))

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        return self._engine.watch_part(wake, queues, self._number)


def _lost_jobs(rows: Sequence[Sequence[str]]) -> tuple[LostJob, ...]:
    return tuple(LostJob(id, task, error) for id, task, error in rows)


def _exchanged(answer: Sequence[Any], raw: Sequence[bytes]) -> tuple[Exchanged, list[Failed]]:
    """The answer, and the reports that end what was claimed and cannot be read."""
    ids, refused, cancelling, next_due, more, now, set_aside, parked = answer
    parts = iter(raw)
    read = [try_attempt(id, record, spec, now) for id, record, spec in zip(ids, parts, parts, strict=True)]
    exchanged = Exchanged(
        attempts=tuple(each for each in read if isinstance(each, Attempt)),
        refused=tuple((job, attempt) for job, attempt in refused),
        cancelling=tuple(cancelling),
        next_due=or_none(next_due),
        more=more,
        now=now,
        set_aside=tuple(set_aside),
        parked=tuple(sorted(zip(parked[::2], parked[1::2], strict=True))),
    )
    return exchanged, [each for each in read if isinstance(each, Failed)]


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
        case Throttled():
            return "throttled", report.job, report.attempt, report.delay, or_false(report.name)
        case Spent():
            return "spent", report.job, report.attempt, report.name, report.units
        case Progress():
            return "progress", report.job, report.attempt, report.value, False
        case _:
            assert_never(report)
