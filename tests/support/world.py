"""A world for engine tests: one clock that only the test moves, short names for jobs, limits and reports.

    await world.limit("A", 1)
    await world.enqueue("j1", "A")
    assert await world.claim(5) == ["j1"]
    await world.end("j1")

Keys are written as people type them (`A`, `A=42`); a pair gives the units that are needed (`("R", 5)`), a third part
the number that the job brings for the key. They belong to the job's tenant unless the limit is `shared`. Every verb is
followed by the audit while the world is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import (
    Algorithm,
    Engine,
    Enqueued,
    Exchanged,
    Failed,
    Filter,
    ImportedJob,
    ImportResult,
    Limit,
    LimitStatus,
    Lost,
    LostJob,
    Override,
    Released,
    Report,
    Resumed,
    ShareWeight,
    Snapshot,
    Snoozed,
    Spent,
    Stopped,
    Succeeded,
    Swept,
    Throttled,
    Verdict,
    Worker,
)
from headgate.engine.rules.audit import audit
from headgate.job import Job, JobState, NewJob
from headgate.keys import Key, Use, canonical, parse
from headgate.retry import RetryPolicy

START = 1_700_000_000 * SECOND
SMALL = 120

Need = str | tuple[str, int] | tuple[str, int, int]


class World:
    """An engine, a clock and its workers."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = START
        self.rates: set[str] = set()
        self.shared: set[str] = set()
        self.workers: set[str] = set()
        self.claimed: dict[str, tuple[str, int]] = {}
        self.starts: list[str] = []
        self.jobs = 0

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def move(self, seconds: float) -> None:
        """Let time pass without a sweep."""
        self.now += round(seconds * SECOND)

    async def later(self, seconds: float) -> Swept:
        """Let time pass and do what time does."""
        self.move(seconds)
        return await self.sweep()

    async def sweep(self) -> Swept:
        """Sweep until nothing is left to do; returns the last answer with the counts of all."""
        due = lost = offered = expired = 0
        failed: tuple[LostJob, ...] = ()
        while True:
            swept = await self.engine.sweep(now=self.now)
            due, lost, failed = due + swept.due, lost + swept.lost, failed + swept.failed
            offered, expired = offered + swept.offered, expired + swept.expired
            if not swept.more:
                await self.check()
                return Swept(due, lost, offered, expired, False, swept.next_due, swept.now, failed)

    def at(self, seconds: float) -> int:
        """A time so many seconds after the start of the world."""
        return START + round(seconds * SECOND)

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def limit(
        self, name: str, max: int | None, *, floating: bool = False, shared: bool = False, **fields: Any
    ) -> None:
        """Declare a concurrency (or floating) limit; `fields` are further ones of its record."""
        if shared:
            self.shared.add(name)
        await self.declare(Limit(name, "floating" if floating else "concurrency", max, **fields))

    async def rate(
        self,
        name: str,
        max: int | None,
        per: float = 60,
        *,
        burst: int | None = None,
        algorithm: Algorithm = "token_bucket",
        **fields: Any,
    ) -> None:
        """Declare a rate; `fields` are further ones of its record."""
        await self.declare(Limit(name, "rate", max, round(per * SECOND), burst, algorithm, **fields))

    async def declare(self, *limits: Limit) -> None:
        """Declare limits as they are."""
        self.rates |= {limit.name for limit in limits if limit.kind == "rate"}
        await self.engine.declare(limits, now=self.now)
        await self.check()

    async def override(self, key: str, max: int | None, *, until: float | None = None, **fields: Any) -> None:
        """An operator's word; `until` is seconds from now."""
        name, value = parse(key)
        ends = None if until is None else self.now + round(until * SECOND)
        record = Override(name, max, value, at=self.now, until=ends, **fields)
        await self.engine.override(record, now=self.now)
        await self.check()

    async def clear(self, key: str, tenant: str | None = None) -> bool:
        """Take an operator's word back."""
        name, value = parse(key)
        cleared = await self.engine.clear_override(name, value, tenant, now=self.now)
        await self.check()
        return cleared

    async def compute(self, key: str, max: int) -> None:
        """Store a floating limit's number."""
        await self.engine.compute(self.ident(key), max, now=self.now)
        await self.check()

    def ident(self, key: str, tenant: str = "") -> str:
        """The ident of a key as typed."""
        return self.key(key, tenant).ident

    def key(self, key: str, tenant: str = "") -> Key:
        """A key as typed."""
        name, value = parse(key)
        return Key(name, value, "" if name in self.shared else tenant, name in self.rates)

    async def status(self, key: str, tenant: str = "") -> LimitStatus:
        """The line of a key (or of a name) in the table of limits."""
        lines = await self.engine.limits(parse(key)[0], now=self.now)
        return next(line for line in lines if line.key == key and line.tenant == tenant)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def job(self, id: str, *needs: Need, tenant: str = "", delay: float = 0, **fields: Any) -> NewJob:
        """A job of task `t`, which retries three times unless told otherwise."""
        uses = canonical((self.key(name, tenant), cost, number) for name, cost, number in map(_need, needs))
        fields.setdefault("task", "t")
        fields.setdefault("retry", RetryPolicy(attempts=4, delay=SECOND))
        return NewJob(id=id, uses=uses, tenant=tenant, delay=round(delay * SECOND), **fields)

    async def enqueue(self, id: str, *needs: Need, **fields: Any) -> JobState:
        """Enqueue one job; returns its state."""
        (enqueued,) = await self.enqueue_all(self.job(id, *needs, **fields))
        return enqueued.state

    async def enqueue_all(self, *jobs: NewJob, limits: Sequence[Limit] = ()) -> list[Enqueued]:
        """Enqueue jobs in one step."""
        self.jobs += len(jobs)
        self.rates |= {limit.name for limit in limits if limit.kind == "rate"}
        enqueued = await self.engine.enqueue(jobs, limits=limits, now=self.now)
        await self.check()
        return enqueued

    async def fill(self, count: int, *needs: Need, prefix: str = "j", **fields: Any) -> list[str]:
        """Enqueue `count` alike jobs j1, j2 … in one step; returns their ids."""
        ids = [f"{prefix}{number}" for number in range(1, count + 1)]
        await self.enqueue_all(*(self.job(id, *needs, **fields) for id in ids))
        return ids

    async def met(self) -> None:
        """All newcomers have been decided on: where enqueue takes no locks, the next exchange does that."""
        await self.exchange(want=0)

    async def take_over(self, *records: ImportedJob, limits: Sequence[Limit] = ()) -> list[ImportResult]:
        """Import records."""
        self.jobs += len(records)
        results = await self.engine.import_jobs(records, limits=limits, now=self.now)
        await self.check()
        return results

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def worker(
        self,
        id: str = "w",
        *,
        tasks: Iterable[str] = ("t",),
        queues: Sequence[str] | None = None,
        lease: float = 1e6,
        concurrency: int = 100,
        threaded: Iterable[str] = (),
    ) -> str:
        """Register a worker whose lease outlasts the test unless told otherwise."""
        served = None if queues is None else tuple(queues)
        record = Worker(
            id,
            frozenset(tasks),
            served,
            round(lease * SECOND),
            concurrency=concurrency,
            threaded=frozenset(threaded),
        )
        await self.engine.register(record, now=self.now)
        self.workers.add(id)
        await self.check()
        return id

    async def exchange(
        self,
        *reports: Report,
        want: int = 0,
        worker: str = "w",
        queues: Sequence[str] | None = None,
        engine: Engine | None = None,
        **how: Any,
    ) -> Exchanged:
        """One exchange as it is; `how` are its `number`, `suspects` and `threads`."""
        if worker not in self.workers:
            await self.worker(worker)
        answer = await (engine or self.engine).exchange(worker, reports, want, queues, now=self.now, **how)
        for attempt in answer.attempts:
            self.claimed[attempt.job] = (worker, attempt.number)
            self.starts.append(attempt.job)
        await self.check()
        return answer

    async def claim(
        self, want: int = 100, worker: str = "w", queues: Sequence[str] | None = None
    ) -> list[str]:
        """Claim; returns the ids in the order in which they were given out."""
        answer = await self.exchange(want=want, worker=worker, queues=queues)
        return [attempt.job for attempt in answer.attempts]

    async def claim_all(self, worker: str = "w") -> list[str]:
        """Claim until nothing more is there."""
        found: list[str] = []
        while True:
            answer = await self.exchange(want=100, worker=worker)
            found += [attempt.job for attempt in answer.attempts]
            if not answer.attempts and not answer.more:
                return found

    async def report(self, id: str, kind: Any, *values: Any) -> Exchanged:
        """Report on the last claimed attempt of a job, by the worker that claimed it."""
        worker, number = self.claimed[id]
        return await self.exchange(kind(id, number, *values), worker=worker)

    async def end(self, *ids: str) -> None:
        """Attempts succeed, in one step per worker."""
        for worker in dict.fromkeys(self.claimed[id][0] for id in ids):
            own = [id for id in ids if self.claimed[id][0] == worker]
            answer = await self.exchange(*(Succeeded(id, self.claimed[id][1]) for id in own), worker=worker)
            assert answer.refused == ()

    async def fail(self, id: str, retry: float | None = None, error: str = "boom") -> None:
        """An attempt fails; `retry` is the delay in seconds until the next one."""
        answer = await self.report(id, Failed, error, None if retry is None else round(retry * SECOND))
        assert answer.refused == ()

    async def snooze(self, id: str, seconds: float) -> None:
        """An attempt asks to be run later."""
        assert (await self.report(id, Snoozed, round(seconds * SECOND))).refused == ()

    async def stop(self, id: str) -> None:
        """An attempt ends as cancelled."""
        assert (await self.report(id, Stopped)).refused == ()

    async def throttle(self, id: str, seconds: float, name: str | None = None) -> None:
        """A service has told an attempt to come back later."""
        assert (await self.report(id, Throttled, round(seconds * SECOND), name)).refused == ()

    async def spent(self, id: str, name: str, units: int) -> None:
        """A running attempt says what it really spent."""
        assert (await self.report(id, Spent, name, units)).refused == ()

    async def share(self, share: str, weight: float, *, until: float | None = None) -> None:
        """An operator gives a share a weight; `until` is seconds from now."""
        ends = None if until is None else self.now + round(until * SECOND)
        await self.engine.set_share(ShareWeight(share, weight, at=self.now, until=ends), now=self.now)
        await self.check()

    async def release(self, id: str) -> None:
        """A worker gives an attempt back."""
        assert (await self.report(id, Released)).refused == ()

    async def lose(self, worker: str = "w") -> Lost:
        """A worker's process is gone; it registers again when it is next needed."""
        lost = await self.engine.report_lost([worker], now=self.now)
        self.workers.discard(worker)
        await self.check()
        return lost

    async def resume(self, number: int, *known: tuple[str, int], worker: str = "w") -> Resumed:
        """A worker in doubt says what it has."""
        answer = await self.engine.resume_worker(worker, number, known, now=self.now)
        await self.check()
        return answer

    async def run_all(self, worker: str = "w", step: float = 1.0, most: int = 1000) -> list[str]:
        """Claim and end until every job has ended, moving time when nothing is ready; returns the starts in order."""
        order: list[str] = []
        for _ in range(most):
            found = await self.claim_all(worker)
            order += found
            if found:
                await self.end(*found)
            elif await self.engine.count(Filter(states=_UNFINISHED)) == 0:
                return order
            else:
                await self.later(step)
        raise AssertionError(f"jobs are left after {most} rounds: {await self.unfinished()}")

    # ── steering ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def steer(self, verb: str, *ids: str) -> list[Verdict]:
        """cancel, restart, expedite or delete."""
        verdicts = await getattr(self.engine, verb)(ids, now=self.now)
        await self.check()
        return verdicts

    async def cancel(self, *ids: str) -> list[Verdict]:
        return await self.steer("cancel", *ids)

    async def restart(self, *ids: str) -> list[Verdict]:
        return await self.steer("restart", *ids)

    async def expedite(self, *ids: str) -> list[Verdict]:
        return await self.steer("expedite", *ids)

    async def delete(self, *ids: str) -> list[Verdict]:
        return await self.steer("delete", *ids)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str) -> Job:
        """A job that must be there."""
        (job,) = await self.engine.get([id])
        assert job is not None, f"job {id!r} is not there"
        return job

    async def state(self, id: str) -> JobState | None:
        """One state."""
        return (await self.engine.states([id]))[0]

    async def states(self, *ids: str) -> list[str]:
        """States as texts."""
        return [str(state) for state in await self.engine.states(ids)]

    async def unfinished(self) -> dict[str, str]:
        """What has not ended, with its state."""
        return {view.id: str(view.state) for view in (await self.snapshot()).jobs}

    async def snapshot(self) -> Snapshot:
        """What admission depends on."""
        return await self.engine.snapshot(now=self.now)

    async def held(self, key: str, tenant: str = "") -> list[str]:
        """Who holds a key, reservations included."""
        return sorted((await self.snapshot()).holders.get(self.ident(key, tenant), {}))

    async def reserved(self, key: str) -> list[str]:
        """Who reserves a key."""
        holders = (await self.snapshot()).holders.get(self.ident(key), {})
        return sorted(id for id, reserved in holders.items() if reserved)

    async def waiting_on(self, id: str) -> str | None:
        """The text of the key a job waits on."""
        ident = (await self.get(id)).waiting_on
        return None if ident is None else Key.of(ident).text

    async def nothing_left(self) -> None:
        """No holder, no waiter, no offer, no timer."""
        left = await self.snapshot()
        assert dict(left.holders) == {}
        assert dict(left.timers) == {}
        assert [view for view in left.jobs if view.waiting_on or view.offered_by] == []

    async def check(self) -> None:
        """The audit, while the world is small."""
        if self.jobs <= SMALL:
            await self.check_now()

    async def check_now(self) -> None:
        """The audit."""
        assert audit(await self.snapshot()) == []


_UNFINISHED = (JobState.SCHEDULED, JobState.READY, JobState.WAITING, JobState.RUNNING)


def _need(need: Need) -> tuple[str, int, int | None]:
    if isinstance(need, str):
        return need, 1, None
    return (*need, None) if len(need) == 2 else need


def uses_of(*idents: str) -> tuple[Use, ...]:
    """Uses of idents, one unit each."""
    return tuple(Use(ident) for ident in idents)
