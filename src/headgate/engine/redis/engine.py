"""The Redis engine's verbs: each is one script call per partition."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import (
    HISTORY_MINUTE,
    LOOKS,
    Beat,
    Done,
    Engine,
    Enqueued,
    Exchanged,
    Facts,
    Filter,
    ImportedJob,
    ImportResult,
    JobPage,
    KeyInUse,
    KeyStatus,
    Known,
    Limit,
    LimitPlace,
    LimitStatus,
    Lost,
    NewArguments,
    Override,
    Part,
    QueueStatus,
    Rechecked,
    Report,
    Resumed,
    Rows,
    Settings,
    ShareStatus,
    ShareWeight,
    Snapshot,
    Swept,
    Totals,
    Verdict,
    Wake,
    Worker,
    WorkerStatus,
)
from headgate.engine.redis import (
    enqueueing,
    finding,
    importing,
    listing,
    number_range,
    overview,
    partitions,
    reading,
    restarting,
    snapshots,
    standing,
)
from headgate.engine.redis.catalogue import VERSION
from headgate.engine.redis.part import RedisPart
from headgate.engine.redis.records import (
    or_false,
    packed_jobs,
    packed_limit,
    packed_override,
    packed_weight,
    read_job,
)
from headgate.engine.redis.store import Store
from headgate.engine.redis.url import Target
from headgate.engine.sleepers import also_on_moves
from headgate.engine.tables import VerbSource, ask
from headgate.errors import EngineError, JobExists
from headgate.job import Job, JobState, NewJob
from headgate.keys import Key


class RedisEngine(Engine):
    """Jobs in Redis or Valkey. `clock` replaces the server's: tests move it."""

    def __init__(
        self, target: Target, settings: Settings | None = None, *, clock: Callable[[], int] | None = None
    ) -> None:
        self.target = target
        self.settings = settings or Settings()
        self._clock = clock
        self._opened: Store | None = None
        self._parts = tuple(RedisPart(self, number) for number in range(target.partitions))

    @property
    def store(self) -> Store:
        """The store as this process has it. Threads and connections do not survive a fork: the child has its own."""
        store = self._opened
        if store is None or store.process != os.getpid():
            store = self._opened = Store(self.target, self.settings)
        return store

    @property
    def _split(self) -> bool:
        return self.target.partitions > 1

    def now(self, now: int | None) -> int | None:
        """The time to give to a script; None leaves it to the server."""
        return self._clock() if now is None and self._clock is not None else now

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        try:
            await self.store.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        store, self._opened = self._opened, None
        if store is not None and store.process == os.getpid():
            await store.close()

    async def migrate(self) -> tuple[int, int]:
        return await self.store.open(), VERSION

    async def version(self) -> int:
        """The version of the store; 0 if there is none yet. Founds nothing."""
        return await self.store.version()

    async def clock(self) -> int:
        if self._clock is not None:
            return self._clock()
        return (await self.store.one(self.store.partitions[0], "clock", []))[0]

    # ── jobs come ────────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        number_range.check_jobs(jobs)
        self._check_limits(limits)
        if not self._split:
            return await enqueueing.enqueue(self.store, 0, jobs, limits, self.now(now))
        partitions.check_jobs(jobs, self.target.partitions)
        if limits:
            await self.declare(limits, now=now)
        homes = [partitions.home(job.tenant, self.target.partitions) for job in jobs]
        answers: dict[int, list[Enqueued]] = {}
        for number in dict.fromkeys(homes):
            own = [job for job, home in zip(jobs, homes, strict=True) if home == number]
            answers[number] = await enqueueing.enqueue(self.store, number, own, (), self.now(now))
        turns = {number: iter(enqueued) for number, enqueued in answers.items()}
        return [next(turns[home]) for home in homes]

    def _check_limits(self, limits: Sequence[Limit]) -> None:
        number_range.check_limits(limits)
        partitions.check_limits(limits, self.target.partitions)

    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        self._check_limits(limits)
        store = self.store
        if limits:
            await self.declare(limits, now=now)
        return await importing.import_jobs(store, records, self.now(now))

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        number_range.check_jobs(jobs)
        partitions.check_jobs(jobs, self.target.partitions)
        here = [job for job in jobs if partitions.home(job.tenant, self.target.partitions) == 0]
        packed, specs = packed_jobs(here)
        store = self.store
        given = (name, or_false(seen), at, packed)
        moved, _ = await store.one(store.partitions[0], "tick", given, specs, self.now(now))
        for job in jobs if moved and self._split else ():
            if job not in here:
                try:
                    await self.enqueue([job], now=now)
                except JobExists:
                    continue
        return moved

    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        found, _ = await self.store.one(self.store.partitions[0], "ticks", list(names))
        return {name: at for name, at in zip(names, found, strict=True) if at is not False}

    async def pause_schedule(self, name: str, *, now: int | None = None) -> bool:
        return await self._of_schedules("pause_schedule", [name], now)

    async def resume_schedule(self, name: str, *, now: int | None = None) -> bool:
        return await self._of_schedules("resume_schedule", [name], now)

    async def paused_schedules(self) -> frozenset[str]:
        return frozenset(await self._of_schedules("paused_schedules", [], None))

    async def _of_schedules(self, verb: str, given: list[str], now: int | None) -> Any:
        """Periodic tasks tick in the first partition."""
        return (await self.store.one(self.store.partitions[0], verb, given, now=self.now(now)))[0]

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def parts(self) -> Sequence[Part]:
        return self._parts if self._split else (self,)

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        return await self._whole().register(worker, now=now)

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        return await self._whole().heartbeat(worker, done=done, now=now)

    async def retire(self, worker: str, *, now: int | None = None) -> None:
        await self._whole().retire(worker, now=now)

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
        return await self._whole().exchange(
            worker, reports, want, queues, number=number, suspects=suspects, threads=threads, now=now
        )

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        return await self._whole().resume_worker(worker, number, known, now=now)

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        return await self._whole().report_lost(workers, now=now)

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        return await self._whole().recheck(after, most=most, now=now)

    async def sweep(self, *, now: int | None = None) -> Swept:
        return await self._whole().sweep(now=now)

    def _whole(self) -> RedisPart:
        """The only part. A split store has no lease, number or sweep of its own: its parts have."""
        if self._split:
            raise EngineError(
                f"{self.target.shown} is split into {self.target.partitions} partitions, each with leases of its own: "
                "workers use each of engine.parts()"
            )
        return self._parts[0]

    # ── operators steer ──────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._each("cancel", ids, now)

    async def restart(
        self, ids: Sequence[str], *, arguments: NewArguments | None = None, now: int | None = None
    ) -> list[Verdict]:
        if arguments is not None:
            return await restarting.restart(self.store, ids, arguments, self.now(now))
        return await self._each("restart", ids, now)

    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._each("expedite", ids, now)

    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._each("delete", ids, now)

    async def _each(self, verb: str, ids: Sequence[str], now: int | None) -> list[Verdict]:
        rows = await self.store.by_ids(verb, ids, lambda row: row[2] is False, self.now(now))
        return [Verdict(id, done, None if state is False else JobState(state)) for id, done, state in rows]

    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        return any(await self.store.answers("pause", [queue], self.now(now)))

    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        return any(await self.store.answers("resume", [queue], self.now(now)))

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        self._check_limits(limits)
        if limits:
            await self.store.change("declare", [packed_limit(limit) for limit in limits], self.now(now))
            self.store.remember(limits)

    async def override(self, override: Override, *, now: int | None = None) -> None:
        partitions.check_limits([Limit(override.name, "concurrency", None)], self.target.partitions)
        number_range.check_override(override)
        await self.store.change("override", packed_override(override), self.now(now))

    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        given = [name, or_false(value), or_false(tenant)]
        return any(was for was, _ in await self.store.change("clear_override", given, self.now(now)))

    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        store = self.store
        number_range.check_number(Key.of(key).name, max)
        partition = store.partitions[partitions.home(Key.of(key).tenant, self.target.partitions)]
        await store.one(partition, "compute", [key, max], now=self.now(now))

    async def learn(
        self, key: str, max: int, *, seen: int | None, reason: str, now: int | None = None
    ) -> bool:
        store = self.store
        number_range.check_number(Key.of(key).name, max)
        partition = store.partitions[partitions.home(Key.of(key).tenant, self.target.partitions)]
        heard, _ = await store.one(partition, "learn", [key, max, or_false(seen), reason], now=self.now(now))
        return heard

    async def declare_shares(self, weights: Sequence[ShareWeight], *, now: int | None = None) -> None:
        if weights:
            rows = [packed_weight(weight) for weight in weights]
            await self.store.change("declare_shares", rows, self.now(now))

    async def set_share(self, weight: ShareWeight, *, now: int | None = None) -> None:
        number_range.check_weight(weight)
        await self.store.change("set_share", packed_weight(weight), self.now(now))

    async def clear_share(self, share: str, *, now: int | None = None) -> bool:
        return any(was for was, _ in await self.store.change("clear_share", [share], self.now(now)))

    async def shares(self, *, after: str | None = None, limit: int = 1000) -> list[ShareStatus]:
        return await listing.shares(self.store, after, limit)

    async def keys_in_use(
        self,
        name: str,
        *,
        computed_before: int | None = None,
        after: str | None = None,
        limit: int = 1000,
        now: int | None = None,
    ) -> list[KeyInUse]:
        return await listing.keys_in_use(self.store, name, computed_before, after, limit, self.now(now))

    async def limits(
        self,
        name: str | None = None,
        *,
        after: LimitPlace | None = None,
        limit: int | None = None,
        now: int | None = None,
    ) -> list[LimitStatus]:
        return await listing.limits(self.store, name, after, limit, self.now(now))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return [
            None if fields is None else read_job(fields) for fields in await finding.fields(self.store, ids)
        ]

    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        known = await self.store.by_ids("states", ids, lambda state: state is False)
        return [None if state is False else JobState(state) for state in known]

    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        return await finding.find(self.store, filter, limit, after)

    async def find_page(
        self, filter: Filter, *, limit: int = 100, after: str | None = None, looks: int = LOOKS
    ) -> JobPage:
        return await finding.find_page(self.store, filter, limit, after, looks)

    async def count(self, filter: Filter) -> int:
        return await finding.count(self.store, filter)

    async def queues(self, *, most: int | None = None) -> list[QueueStatus]:
        return await reading.queues(self.store)

    async def totals(self, *, most: int | None = None) -> Totals:
        return await overview.totals(self.store)

    async def tightest(self, *, limit: int = 10, now: int | None = None) -> list[LimitStatus]:
        return await overview.tightest(self.store, limit, self.now(now))

    async def keys(
        self, idents: Sequence[str], *, holders: int = 10, waiters: int = 0, now: int | None = None
    ) -> list[KeyStatus | None]:
        return await standing.keys(self.store, idents, holders, waiters, self.now(now))

    async def history(
        self,
        since: int,
        *,
        step: int = HISTORY_MINUTE,
        queue: str | None = None,
        task: str | None = None,
        each: bool = False,
        now: int | None = None,
    ) -> list[Done]:
        return await overview.history(self.store, since, step, queue, task, each=each)

    async def select(self, sql: str, *, limit: int = 1000, timeout: int = 10 * SECOND) -> Rows:
        return await ask(VerbSource(self), sql, limit, timeout)

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        return reading.workers(await self.store.answers("workers", [], self.now(now)))

    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        return await reading.explain(self.store, id, self.now(now))

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        return await snapshots.snapshot(self.store, self.now(now))

    # ── waking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        return self.watch_part(wake, queues, None)

    def watch_part(
        self, wake: Wake, queues: Sequence[str] | None, partition: int | None
    ) -> Callable[[], None]:
        """Wake for jobs of one partition, or of all."""
        return also_on_moves(self._clock, wake, self.store.watchers.on_work(wake, queues, partition))

    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        return self.store.watchers.on_ended(wake)
