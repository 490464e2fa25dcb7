"""The PostgreSQL engine's verbs: each is one call of a server-side function, whose header says what it locks."""

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
    LostJob,
    NewArguments,
    Override,
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
from headgate.engine.postgres import rows
from headgate.engine.postgres.belonging import Belonging
from headgate.engine.postgres.enqueueing import (
    enqueue_call,
    enqueue_result,
    enqueue_values,
    one_call,
    one_result,
    one_values,
    problem_of,
)
from headgate.engine.postgres.importing import Import, keep
from headgate.engine.postgres.migrate import check_server, migrate, newest, version
from headgate.engine.postgres.pools import Connection, Pools
from headgate.engine.postgres.reading import Reader
from headgate.engine.postgres.scripts import check_schema
from headgate.engine.postgres.selecting import select
from headgate.engine.postgres.store import Store
from headgate.engine.postgres.wire import Numbers, got, got_all, got_key, put, put_all, put_if, put_key
from headgate.engine.postgres.within import enqueue_within, way_of
from headgate.engine.rules.mended import (
    forgotten_waiters,
    late_timer,
    lost_worker,
    stray_holder,
    unreadable_job,
)
from headgate.engine.rules.refused import lapsed, stale
from headgate.engine.sleepers import also_on_moves
from headgate.errors import ConfigError, HeadgateError
from headgate.job import Job, JobState, NewJob

MIGRATION_TIMEOUT = 3600.0
"""Seconds: an index over millions of jobs takes its time."""
SWEEP_MOST = 1000
"""How much of each kind one sweep takes on."""
ANSWER_TIMEOUT = 5.0
"""Seconds that a server has for its answer to a question, beyond those that it may think."""
FOLLOWED_AT_ONCE = 5
"""Slices of 200 keys that a call which changes limits, or a sweep, looks at before it returns."""


class PostgresEngine(Engine):
    """Jobs in a schema of a PostgreSQL database. `where` is the URL as it may be shown."""

    def __init__(
        self,
        dsn: str,
        settings: Settings | None = None,
        *,
        where: str = "the PostgreSQL server",
        schema: str = "headgate",
        clock: Callable[[], int] | None = None,
        prepared: bool = True,
    ) -> None:
        self.where = where
        self.schema = check_schema(schema)
        self.settings = settings or Settings()
        self._clock = clock
        options = {} if prepared else {"statement_cache_size": 0}
        self._address = dsn, where, schema, options, self.settings
        self._keep = Numbers.of(keep(self.settings))
        self._enqueue_one, self._enqueue_many = one_call(schema), enqueue_call(schema)
        self._opened = Store(*self._address)
        self._belonging = Belonging(schema, where)

    @property
    def _store(self) -> Store:
        """What this process uses; a forked child makes its own."""
        if self._opened.process != os.getpid():
            self._opened = Store(*self._address)
        return self._opened

    @property
    def pools(self) -> Pools:
        """The connections of this process."""
        return self._store.pools

    @property
    def _me(self) -> str:
        """The listener of this process: it need not be notified of what the process does itself."""
        return self._store.watchers.id

    def _now(self, now: int | None) -> int | None:
        return now if now is not None or self._clock is None else self._clock()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        try:
            async with self.pools.connection() as connection:
                await check_server(connection, self.where)
                found = await version(connection, self.schema, self.where)
            if found < newest():
                await self.migrate()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._opened.process == os.getpid():
            await self._opened.close()
            self._opened = Store(*self._address)

    async def migrate(self) -> tuple[int, int]:
        async with self.pools.connection(within=MIGRATION_TIMEOUT) as connection:
            return await migrate(connection, self.schema, self.where)

    async def version(self) -> int:
        """The version of the schema; 0 if there is no store in it yet."""
        async with self.pools.connection() as connection:
            await check_server(connection, self.where)
            return await version(connection, self.schema, self.where)

    async def clock(self) -> int:
        if self._clock is not None:
            return self._clock()
        return (await self._store.call("_now", None))[0]

    # ── jobs come ────────────────────────────────────────────────────────────────────────────────────────────────

    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        async with self.pools.connection() as connection:
            enqueued, ended, again = await self._enqueue(connection, jobs, limits, now)
        self._store.signal(work=True, ended=ended, again=again)
        if limits:
            await self._changed([put(limit.name) for limit in limits], now)
        return enqueued

    async def _enqueue(
        self, connection: Connection, jobs: Sequence[NewJob], limits: Sequence[Limit], now: int | None
    ) -> tuple[list[Enqueued], bool, bool]:
        """What became of the jobs, whether others ended, and whether to look again; to be told after the commit."""
        at = self._now(now)
        if not limits and (values := one_values(jobs, at, self._me, notify=None)) is not None:
            row = await connection.fetchrow(self._enqueue_one, *values)
            return [one_result(jobs[0], row)], False, row["again"]
        values = enqueue_values(jobs, limits, self.settings, at, self._me, notify=None)
        row = await connection.fetchrow(self._enqueue_many, *values)
        return enqueue_result(jobs, row), row["ended"], row["again"]

    async def enqueue_within(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs on a caller's connection, inside whatever transaction it has."""
        return await enqueue_within(connection, jobs, self.schema, self.settings, self._now(None))

    def is_awaited(self, connection: Any) -> bool:
        """Whether statements on a caller's connection are awaited."""
        return way_of(connection)[1].awaited

    async def check_transaction(self, connection: Any) -> None:
        """Refuse a connection whose statements would not be part of a transaction, or not of this store."""
        await self._belonging.check(connection, self.pools)

    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        async with self.pools.connection() as connection:
            at = self._now(now)
            if at is None:
                at = await self.clock()
            work = Import(connection, self.schema, self.settings, self._me, at)
            results = await work.run(records, limits)
        self._store.signal(work=True, ended=True)
        if limits:
            await self._changed([put(limit.name) for limit in limits], now)
        return results

    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        ended = again = False
        async with self.pools.connection() as connection, connection.transaction():
            moved = await connection.fetchval(
                f"SELECT {self._store.name}.tick($1, $2, $3)", put(name), seen, at
            )
            if moved and jobs:
                ids = [job.id for job in jobs]
                there = dict(zip(ids, await Reader(connection, self.schema).states(ids), strict=True))
                new = [job for job in jobs if there[job.id] is None]
                _, ended, again = await self._enqueue(connection, new, (), now)
        # Not before the commit: a worker that looked at the call would find nothing, and sleep on.
        if moved:
            self._store.signal(work=True, ended=ended, again=again)
        return moved

    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        async with self.pools.connection() as connection:
            found = await connection.fetch(
                f"SELECT task, at FROM {self._store.name}.ticks WHERE task = ANY ($1)", put_all(names)
            )
        stored: dict[str, int] = dict(found)
        return {name: stored[put(name)] for name in names if put(name) in stored}

    async def pause_schedule(self, name: str, *, now: int | None = None) -> bool:
        return (await self._store.call("pause_schedule", put(name)))[0]

    async def resume_schedule(self, name: str, *, now: int | None = None) -> bool:
        return (await self._store.call("resume_schedule", put(name), self._now(now)))[0]

    async def paused_schedules(self) -> frozenset[str]:
        async with self.pools.connection() as connection:
            found = await connection.fetch(f"SELECT task FROM {self._store.name}.paused_schedules")
        return frozenset(got(task) for (task,) in found)

    async def meet(self, *, now: int | None = None) -> dict[str, JobState]:
        """Newcomers that no claim has met yet arrive now; every sweep does the same. Returns the state each got."""
        row = await self._store.call("meet", self._now(now), self.settings.reservation_ttl, self._keep)
        return dict(zip(got_all(row["ids"]), map(JobState, row["states"] or ()), strict=True))

    # ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        queues = None if worker.queues is None else put_all(worker.queues)
        row = await self._store.call(
            "register", put(worker.id), put_all(sorted(worker.tasks)), put_all(sorted(worker.threaded)), queues,
            worker.lease, put(worker.host), worker.pid, worker.concurrency, self._now(now),
            self.settings.reservation_ttl, self._keep, self._me,
        )  # fmt: skip
        return row[0]

    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        row = await self._store.call("heartbeat", put(worker), rows.done(done), self._now(now))
        if row["beat_at"] is None:
            raise lapsed(worker)
        return Beat(tuple(got_all(row["cancelling"])), row["beat_at"])

    async def retire(self, worker: str, *, now: int | None = None) -> None:
        row = await self._store.call(
            "retire",
            put(worker),
            self._now(now),
            self.settings.reservation_ttl,
            self._keep,
            self._me,
        )
        self._store.signal(work=row[0], ended=row[0])

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
        said = rows.Reports(reports)
        *started, row = await self._store.exchange(
            put(worker), *said.arrays(), want, None if queues is None else put_all(queues),
            self._now(now), self.settings.patience, self.settings.reservation_ttl, self._keep, self._me,
            self._store.watchers.sole, number, suspects, threads,
        )  # fmt: skip
        if not row["leased"]:
            raise _refused(worker, number, row["last"])
        if row["wake"] or row["ended"] or row["again"]:
            self._store.signal(work=row["wake"], ended=row["ended"], again=row["again"])
        attempts, unreadable = rows.attempts(started, row["at"])
        if unreadable:
            await self.exchange(worker, unreadable, 0, now=now)
        return Exchanged(
            attempts=attempts,
            refused=said.refused(row["refused"]),
            cancelling=tuple(got_all(row["cancelling"])),
            next_due=row["next_due"],
            more=row["more"],
            now=row["at"],
            set_aside=tuple(got_all(row["set_aside"])),
            parked=rows.parked(row["parked"]),
        )

    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        row = await self._store.call(
            "resume_worker", put(worker), number, put_all(job for job, _ in known),
            Numbers.of(attempt for _, attempt in known), self._now(now), self.settings.reservation_ttl, self._keep,
            self._me,
        )  # fmt: skip
        if row["at"] is None:
            raise _refused(worker, number, row["last"] if row["leased"] else None)
        self._store.signal(work=row["taken_back"] > 0, ended=row["taken_back"] > 0, again=row["again"])
        return Resumed(
            tuple(known[int(place) - 1] for place in row["alive"]),
            row["taken_back"],
            tuple(got_all(row["cancelling"])),
            row["at"],
        )

    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        row = await self._store.call(
            "report_lost",
            put_all(workers),
            self._now(now),
            self.settings.reservation_ttl,
            self._keep,
            self._me,
        )
        self._store.signal(work=row["attempts"] > 0, ended=row["attempts"] > 0)
        return Lost(row["attempts"], _failed(row))

    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        row = await self._store.call(
            "recheck", None if after is None else put_key(after), most, self._now(now),
            self.settings.reservation_ttl, self._keep, self._me,
        )  # fmt: skip
        healed = tuple(map(_healed, row["kinds"], row["keys"], row["jobs"], row["others"]))
        self._store.signal(work=bool(healed), ended=bool(healed), again=row["again"])
        return Rechecked(healed, None if row["after"] is None else got_key(row["after"]))

    async def sweep(self, *, now: int | None = None) -> Swept:
        row = await self._store.call(
            "sweep", self._now(now), self.settings.reservation_ttl, self._keep, self._me, SWEEP_MOST
        )
        self._store.signal(work=row["wake"], ended=row["lost"] > 0 or row["late"], again=row["again"])
        self._store.vacuum.begin()
        offered, more = row["offered"], row["more"]
        if row["expiring"]:
            await self._store.call("expire", self._now(now))
        if row["expiring"] or row["changed"]:
            given, left = await self._follow(None, now)
            offered, more = offered + given, more or left
        if row["look"]:
            looked, left = await self._look(now)
            offered, more = offered + looked, more or left
        if row["retagging"]:
            more = await self._retag() or more
        late = row["expiring"] or row["look"]
        next_due = (await self._store.call("_next_due"))[0] if late else row["next_due"]
        return Swept(
            row["due"], row["lost"], offered, row["expired"], more, next_due, row["at"], _failed(row)
        )

    async def _retag(self) -> bool:
        """Tag shares whose steps have changed anew, some slices of them; whether there is more to do."""
        for _ in range(FOLLOWED_AT_ONCE):
            if not (await self._store.call("retag"))[0]:
                return False
        return True

    async def _look(self, now: int | None) -> tuple[int, bool]:
        """Offer the room of keys that no step has looked at since a newcomer came there."""
        row = await self._store.call("look", self._now(now), self.settings.reservation_ttl, self._me)
        self._store.signal(work=row["offered"] > 0, again=row["again"])
        return row["offered"], row["more"]

    # ── operators steer ──────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._steer("cancel", ids, now)

    async def restart(
        self, ids: Sequence[str], *, arguments: NewArguments | None = None, now: int | None = None
    ) -> list[Verdict]:
        return await self._steer("restart", ids, now, arguments)

    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._steer("expedite", ids, now)

    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        return await self._steer("delete", ids, now)

    async def _steer(
        self, verb: str, ids: Sequence[str], now: int | None, arguments: NewArguments | None = None
    ) -> list[Verdict]:
        row = await self._store.call(
            "steer", verb, put_all(ids), *rows.new_arguments(arguments), self._now(now),
            self.settings.reservation_ttl, self._keep, self._me,
        )  # fmt: skip
        if row["problem"] is not None:
            raise problem_of(row["problem"], got(row["subject"]), row["detail"])
        self._store.signal(work=row["wake"], ended=row["ended"], again=row["again"])
        return [
            Verdict(id, done, None if state is None else rows.read_state(state))
            for id, done, state in zip(ids, row["done"], row["states"], strict=True)
        ]

    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        async with self.pools.connection() as connection:
            done = await connection.execute(
                f"INSERT INTO {self._store.name}.paused (queue) VALUES ($1) ON CONFLICT DO NOTHING",
                put(queue),
            )
        return done.endswith(" 1")

    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        async with self.pools.connection() as connection:
            done = await connection.execute(
                f"DELETE FROM {self._store.name}.paused WHERE queue = $1", put(queue)
            )
        self._store.signal(work=True, again=True)
        return done.endswith(" 1")

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        if limits:
            row = await self._store.call(
                "declare",
                rows.declared(limits),
                self._now(now),
                self.settings.reservation_ttl,
                self._me,
            )
            if row[0]:
                await self._changed([put(limit.name) for limit in limits], now)

    async def _changed(self, whats: Sequence[str], now: int | None) -> None:
        """Limits, or keys by their texts, have other numbers: their waiters are offered what room there is. What is
        left after a few slices follows while the caller goes on; should this process end before, sweeps do it."""
        _, more = await self._follow(whats, now)
        if more:
            self._store.go_on(lambda: self._follow_on(whats, now))

    async def _follow_on(self, whats: Sequence[str], now: int | None) -> None:
        more = True
        while more:
            _, more = await self._follow(whats, now)

    async def _follow(self, whats: Sequence[str] | None, now: int | None) -> tuple[int, bool]:
        """The next slices of these changes, or of any that no process works on; how many waiters were offered room, and
        whether there is more to do."""
        offered, more, slices = 0, True, 0
        while more and slices < FOLLOWED_AT_ONCE:
            row = await self._store.call(
                "follow", whats, self._now(now), self.settings.reservation_ttl, self._me
            )
            self._store.signal(work=row["offered"] > 0, again=row["again"])
            offered, more, slices = offered + row["offered"], row["more"], slices + 1
        return offered, more

    async def override(self, override: Override, *, now: int | None = None) -> None:
        if not await self._override(override, False, now):
            raise ConfigError(
                f"no limit is named {override.name!r}; see `headgate limits` for those there are"
            )

    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        return await self._override(Override(name, None, value, tenant), True, now)

    async def _override(self, o: Override, clear: bool, now: int | None) -> bool:
        row = await self._store.call(
            "override", put(o.name), put_if(o.value), put_if(o.tenant), o.max, put(o.by), o.at, put(o.why),
            o.until, clear, self._now(now), self.settings.reservation_ttl, self._me,
        )  # fmt: skip
        if row["there"]:
            await self._changed([put(o.name) if o.value is None else f"{put(o.name)}={put(o.value)}"], now)
        return row["there"]

    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        row = await self._store.call(
            "compute", put_key(key), max, self._now(now), self.settings.reservation_ttl, self._me
        )
        self._store.signal(work=row[0], again=row[0])

    async def learn(
        self, key: str, max: int, *, seen: int | None, reason: str, now: int | None = None
    ) -> bool:
        row = await self._store.call(
            "learn", put_key(key), max, seen, put(reason), self._now(now), self.settings.reservation_ttl, self._me
        )  # fmt: skip
        self._store.signal(work=row["offered"], again=row["offered"])
        return row["done"]

    async def declare_shares(self, weights: Sequence[ShareWeight], *, now: int | None = None) -> None:
        if weights:
            numbers = Numbers.of(weight.weight for weight in weights)
            async with self.pools.connection() as connection:
                await connection.fetchval(
                    f"SELECT {self._store.name}.declare_shares($1, $2::text::double precision[])",
                    put_all(weight.share for weight in weights),
                    numbers,
                )

    async def set_share(self, weight: ShareWeight, *, now: int | None = None) -> None:
        await self._store.call(
            "set_share", put(weight.share), weight.weight, put(weight.by), weight.at, put(weight.why), weight.until
        )  # fmt: skip

    async def clear_share(self, share: str, *, now: int | None = None) -> bool:
        return (await self._store.call("set_share", put(share), None, "", 0, "", None))["there"]

    async def shares(self, *, after: str | None = None, limit: int = 1000) -> list[ShareStatus]:
        async with self._store.reader() as reader:
            return await reader.shares(after, limit)

    async def keys_in_use(
        self,
        name: str,
        *,
        computed_before: int | None = None,
        after: str | None = None,
        limit: int = 1000,
        now: int | None = None,
    ) -> list[KeyInUse]:
        async with self._store.reader() as reader:
            return await reader.keys_in_use(name, computed_before, after, limit)

    async def limits(
        self,
        name: str | None = None,
        *,
        after: LimitPlace | None = None,
        limit: int | None = None,
        now: int | None = None,
    ) -> list[LimitStatus]:
        async with self._store.reader() as reader:
            return await reader.limits(name, after, limit, self._now(now))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        async with self._store.reader() as reader:
            return await reader.get(ids)

    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        async with self._store.reader() as reader:
            return await reader.states(ids)

    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        async with self._store.reader() as reader:
            return await reader.find(filter, limit, after)

    async def find_page(
        self, filter: Filter, *, limit: int = 100, after: str | None = None, looks: int = LOOKS
    ) -> JobPage:
        async with self._store.reader() as reader:
            return await reader.find_page(filter, limit, after, looks)

    async def count(self, filter: Filter) -> int:
        async with self._store.reader() as reader:
            return await reader.count(filter)

    async def queues(self, *, most: int | None = None) -> list[QueueStatus]:
        async with self._store.reader() as reader:
            return await reader.queues(most)

    async def totals(self, *, most: int | None = None) -> Totals:
        async with self._store.reader() as reader:
            return await reader.totals(most)

    async def tightest(self, *, limit: int = 10, now: int | None = None) -> list[LimitStatus]:
        async with self._store.reader() as reader:
            return await reader.tightest(limit)

    async def keys(
        self, idents: Sequence[str], *, holders: int = 10, waiters: int = 0, now: int | None = None
    ) -> list[KeyStatus | None]:
        async with self._store.reader() as reader:
            return await reader.keys(idents, holders, waiters, self._now(now))

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
        async with self._store.reader() as reader:
            return await reader.history(since, step, queue, task, each=each)

    async def select(self, sql: str, *, limit: int = 1000, timeout: int = 10 * SECOND) -> Rows:
        within = timeout / SECOND + ANSWER_TIMEOUT
        async with self.pools.connection(within=within) as connection:
            return await select(connection, self.schema, sql, limit, max(1, timeout // 1000))

    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        async with self._store.reader() as reader:
            return await reader.workers()

    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        async with self._store.reader() as reader:
            return await reader.explain(id, self._now(now))

    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        async with self._store.reader() as reader:
            return await reader.snapshot(self._now(now))

    # ── waking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        return also_on_moves(self._clock, wake, self._store.watchers.on_work(wake, queues))

    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        return self._store.watchers.on_ended(wake)


def _refused(worker: str, number: int | None, last: int | None) -> HeadgateError:
    """Why a message was not carried out: a later one was, or, without a number of it, the lease has lapsed."""
    return lapsed(worker) if last is None or number is None else stale(worker, number, last)


def _failed(row: Any) -> tuple[LostJob, ...]:
    return tuple(map(LostJob, got_all(row["failed"]), got_all(row["tasks"]), row["errors"]))


def _healed(kind: str, key: str, job: str | None, other: str | None) -> str:
    match kind:
        case "holder":
            return stray_holder(got_key(key), got(job or ""), other)
        case "waiter":
            return forgotten_waiters(got_key(key), got(other or ""), got(job or ""))
        case "timer":
            return late_timer(got_key(key))
        case "state":
            return unreadable_job(got(job or ""), f"its state: {got(other or '')!r}")
        case _:
            return lost_worker(got(job or ""), got(other or ""))
