"""What the PostgreSQL engine shows: lists, counts, facts, snapshots. Nothing here changes anything."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from headgate.engine.contract import (
    Facts,
    Filter,
    Holder,
    JobPage,
    JobView,
    KeyInUse,
    KeyNumbers,
    Limit,
    LimitPlace,
    LimitStatus,
    Override,
    ShareStatus,
    ShareWeight,
    Snapshot,
    Worker,
    WorkerStatus,
)
from headgate.engine.postgres.pools import Connection
from headgate.engine.postgres.rows import is_ident, is_state, job, read_state, uses_if_readable
from headgate.engine.postgres.statements import sql
from headgate.engine.postgres.wire import got, got_if, got_key, put, put_all, put_error, put_if, put_key
from headgate.engine.rules.admission import Cap, Gate
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.reading import Serving, earliest, facts, most_tokens
from headgate.engine.rules.status import COUNTED_MOST, key_status, limits_page, with_tokens
from headgate.job import Job, JobState
from headgate.keys import Key, is_rate
from headgate.rates import Bucket, Meter, Pace, Window

_decode = msgspec.json.decode


class Reader:
    """The reading verbs over one connection."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    async def rows(self, name: str, *values: Any) -> list[Any]:
        """What a statement answers."""
        return await self.connection.fetch(sql(name, self.schema), *values)

    async def book(
        self, now: int | None = None, *, computed_for: Sequence[str] | None = ()
    ) -> tuple[RuleBook, int]:
        """The limits in force, with the numbers of these keys (None: of all), and now."""
        keys = None if computed_for is None else [put_key(key) for key in computed_for]
        ((limits, overrides, computed, brought, gates, at),) = await self.rows("rules", now, keys)
        return _book(limits, overrides, computed, brought, gates), at

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """Whole jobs with their history."""
        found = {each.id: each for each in map(job, await self.rows("get", put_all(ids)))}
        return [found.get(id) for id in ids]

    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        """Only their states."""
        found = {got(id): read_state(state) for id, state in await self.rows("states", put_all(ids))}
        return [found.get(id) for id in ids]

    async def find(self, wanted: Filter, limit: int, after: str | None) -> list[Job]:
        """Jobs that match, newest first."""
        place = put_if(after), limit
        if wanted.waiting_on is None:
            rows = await self.rows("find", _states(wanted), *_filter(wanted), *_ended(wanted), *place)
        elif _waits(wanted):
            rows = await self.rows("find_waiting", put(wanted.waiting_on), *_filter(wanted), *place)
        else:
            rows = []
        return [job(row) for row in rows]

    async def find_page(self, wanted: Filter, limit: int, after: str | None, looks: int) -> JobPage:
        """Jobs that match among the next so many of the states that are asked for."""
        if wanted.ids is not None or wanted.waiting_on is not None or wanted.states == ():
            found = await self.find(wanted, limit, after)
            return JobPage(tuple(found), found[-1].id if len(found) == limit else None)
        some = await self.rows("newest", _states(wanted), *_ended(wanted), put_if(after), looks)
        seqs = [seq for (seq,) in some]
        queue, task, tenant, _, unique, error = _filter(wanted)
        rows = await self.rows("find_among", seqs, queue, task, tenant, unique, error, limit)
        found = [job(row) for row in rows]
        if len(found) == limit:
            return JobPage(tuple(found), found[-1].id)
        if len(seqs) < looks:
            return JobPage(tuple(found), None)
        last = await self.rows("id_of", seqs[-1])
        return JobPage(tuple(found), got(last[0][0]) if last else None)

    async def count(self, wanted: Filter) -> int:
        """How many match."""
        if wanted.waiting_on is None:
            rows = await self.rows("count", _states(wanted), *_filter(wanted), *_ended(wanted))
        elif _waits(wanted):
            rows = await self.rows("count_waiting", put(wanted.waiting_on), *_filter(wanted))
        else:
            return 0
        return rows[0][0]

    # ── limits, workers ───────────────────────────────────────────────────────────────────────────────────────

    async def meters(self, keys: Sequence[str]) -> Meters:
        """What was spent of rate keys."""
        if not keys:
            return Meters({}, ())
        ((meters, starts),) = await self.rows("meters", [put_key(key) for key in keys])
        return _meters(meters, starts)

    async def with_tokens(
        self, book: RuleBook, rows: Sequence[LimitStatus], keys: Sequence[str], now: int
    ) -> list[LimitStatus]:
        """Records of keys, those of rates with the tokens that they have now."""
        spent = await self.meters([key for key in keys if is_rate(key)])
        return [
            with_tokens(row, rule := book.rule(key), lambda: spent.of(key, cast(Pace, rule), now), now)  # noqa: B023
            for row, key in zip(rows, keys, strict=True)
        ]

    async def shares(self, after: str | None, limit: int) -> list[ShareStatus]:
        """Fair shares that have jobs or a weight."""
        found = await self.rows("shares", put(after) if after is not None else "", limit)
        return [_share(row) for row in found]

    async def limits(
        self, name: str | None, after: LimitPlace | None, limit: int | None, now: int | None
    ) -> list[LimitStatus]:
        """A page of all limits and the keys of them that matter."""
        names = await self.rows("limit_names", put_if(name), put(after[0]) if after else "")
        page: list[tuple[Key, int, int, bool]] = []
        for each, known in names:
            left = None if limit is None else limit - len(page)
            page += await self._limit_page(got(each), known, after, left)
            if limit is not None and len(page) >= limit:
                break
        book, at = await self.book(now, computed_for=[key.ident for key, *_ in page])
        keys = [
            Key(key.name, rate=_is_rate(book, key.name)) if key.text == key.name and not key.tenant else key
            for key, *_ in page
        ]
        rows = [
            key_status(book, key, held, waiting, exact)
            for key, (_, held, waiting, exact) in zip(keys, page, strict=True)
        ]
        rows = await self.with_tokens(book, rows, [key.ident for key in keys], at)
        return limits_page(rows, after, limit)

    async def _limit_page(
        self, name: str, known: bool, after: LimitPlace | None, limit: int | None
    ) -> list[tuple[Key, int, int, bool]]:
        """The limit as such, with the sums over its keys, and the first keys behind the place. In a page, the sums are
        counted up to a number, and are then lower bounds."""
        rows: list[tuple[Key, int, int, bool]] = []
        begins = after is None or after[0] != name
        if begins:
            most = None if limit is None else COUNTED_MOST
            ((held, waiting, exact),) = await self.rows("limit_totals", put(name), most)
            if not (known or held or waiting):
                return []
            rows.append((Key(name), held, waiting, exact))
        behind = ("", "") if after is None or begins else (put(after[1]), put(after[2]))
        more = None if limit is None else limit + 1
        for key, held, waiting in await self.rows("limit_keys", put(name), *behind, more):
            found = Key.of(got_key(key))
            if found.text != name or found.tenant:
                rows.append((found, held, waiting, True))
        return rows

    async def keys_in_use(
        self, name: str, computed_before: int | None, after: str | None, limit: int
    ) -> list[KeyInUse]:
        """The next keys of one limit that are held or waited for."""
        counts = [
            (got_key(key), held, waiting)
            for key, held, waiting in await self.rows(
                "keys_in_use", put(name), computed_before, put_key(after) if after else "", limit
            )
        ]
        book, _ = await self.book(computed_for=[key for key, _, _ in counts])
        return [
            KeyInUse(key, book.number(Key.of(key)), held, waiting, _computed_at(book, key))
            for key, held, waiting in counts
        ]

    async def workers(self) -> list[WorkerStatus]:
        """The registered workers."""
        return sorted(map(_worker, await self.rows("workers")), key=lambda status: status.worker.id)

    # ── explanations ─────────────────────────────────────────────────────────────────────────────────────────────

    async def explain(self, id: str, now: int | None) -> Facts | None:
        """Why a job is where it is."""
        rows = await self.rows("get", [put(id)])
        if not rows:
            return None
        shown, seq, units = job(rows[0]), rows[0]["seq"], rows[0]["units"]
        key = shown.waiting_on
        book, at = await self.book(now, computed_for=[key] if key else [])
        stored = key and put_key(key)
        ((holders, before, full_at, starts, paused, offered),) = await self.rows(
            "facts", stored, put(shown.queue), shown.priority, shown.tag, shown.due, seq
        )
        limit = None
        if key is not None:
            (limit,) = await self.with_tokens(book, [await self._status(book, key)], [key], at)
        workers = [status.worker for status in await self.workers() if status.lease_until > at]
        return facts(
            shown,
            limit,
            holders=() if key is None else map(holder, _decode(holders)),
            offered=offered,
            place=None if key is None else before + 1,
            earliest=None if key is None else _earliest(book, key, units, full_at, _decode(starts), at),
            paused=paused,
            live=[Serving(worker.queues, worker.tasks) for worker in workers],
            now=at,
            weight=None if shown.share is None else await self._weight(shown.share),
        )

    async def _weight(self, share: str) -> float:
        ((weight,),) = await self.rows("weight", put(share))
        return weight

    async def _status(self, book: RuleBook, key: str) -> LimitStatus:
        ((held, waiting),) = await self.rows("key_counts", put_key(key))
        return key_status(book, Key.of(key), held, waiting)

    async def snapshot(self, now: int | None) -> Snapshot:
        """Everything that admission depends on, in one transaction that sees one instant."""
        async with self.connection.transaction(isolation="repeatable_read", readonly=True):
            book, at = await self.book(now, computed_for=None)
            ((jobs, holders, timers, workers, meters, starts, checks),) = await self.rows("snapshot")
        held: defaultdict[str, dict[str, bool]] = defaultdict(dict)
        units: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for key, id, reserved, taken in _decode(holders):
            holding = got(id) if id is not None else "?"
            held[got_key(key)][holding] = reserved
            units[got_key(key)][holding] = taken
        views = tuple(_view(book, row) for row in _decode(jobs) if is_state(row[1]))
        waited = {view.waiting_on for view in views if view.waiting_on is not None}
        offering = {view.offered_by for view in views if view.offered_by is not None}
        keys = {key for key in held.keys() | waited | offering if is_ident(key)}
        spent = _meters(meters, starts)
        return Snapshot(
            jobs=views,
            holders=dict(held),
            free={key: _free(book, key, sum(units.get(key, {}).values()), spent, at) for key in keys},
            timers={got_key(key): time for key, time in _decode(timers)},
            workers=frozenset(got(id) for id in _decode(workers)),
            now=at,
            most=most_tokens(book.rule, waited & keys),
            unsettled=frozenset(map(got_key, _decode(checks))),
            units=_larger(units),
        )


def _larger(units: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Holders' units where these are not one."""
    found = {key: {id: number for id, number in taken.items() if number != 1} for key, taken in units.items()}
    return {key: taken for key, taken in found.items() if taken}


class Meters:
    """What was spent of rate keys."""

    def __init__(self, full_at: dict[str, int], starts: Sequence[tuple[Any, ...]]) -> None:
        self.full_at = full_at
        self.starts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for key, at, units in starts:
            self.starts[key].append((at, units))

    def of(self, key: str, pace: Pace, now: int) -> Meter:
        """The meter of one key."""
        if pace.exact:
            return Window(deque(start for start in self.starts.get(key, ()) if start[0] > now - pace.period))
        return Bucket(self.full_at.get(key, 0))


def _free(book: RuleBook, key: str, held: int, spent: Meters, now: int) -> int | None:
    rule = book.rule(key)
    if isinstance(rule, Cap):
        most = rule.at(now)
        return None if most is None else most - held
    if rule.limit is None:
        return None
    return spent.of(key, rule, now).free(rule, now) if rule.limit else 0


def _earliest(book: RuleBook, key: str, units: int, full_at: int | None, starts: Any, now: int) -> int | None:
    rule = book.rule(key)
    spent = Meters({key: full_at or 0}, [(key, at, number) for at, number in starts])
    return earliest(rule, lambda: spent.of(key, cast(Pace, rule), now), units, now)


def _meters(meters: str, starts: str) -> Meters:
    return Meters(
        {got_key(key): full_at for key, full_at in _decode(meters)},
        [(got_key(key), *spent) for key, *spent in _decode(starts)],
    )


def _book(limits: str, overrides: str, computed: str, brought: str, gates: str) -> RuleBook:
    book = RuleBook()
    for name, *rest in _decode(limits):
        book.limits[got(name)] = Limit(got(name), *rest)
    for row in _decode(overrides):
        name, max, value, tenant, by, at, why, until = row
        scope = (got(name), got_if(value), got_if(tenant))
        book.overrides[scope] = Override(scope[0], max, scope[1], scope[2], got(by), at, got(why), until)
    for key, max, at, reason in _decode(computed):
        book.numbers[got_key(key)] = KeyNumbers(at, max, at, got_if(reason))
    for key, number, before, at in _decode(brought):
        known = book.numbers.get(got_key(key)) or KeyNumbers(at)
        book.numbers[got_key(key)] = msgspec.structs.replace(
            known, at=known.at if known.at > at else at, brought=number, brought_before=before
        )
    for key, opens_at, step in _decode(gates):
        book.gates[got_key(key)] = Gate(opens_at, step)
    return book


def _is_rate(book: RuleBook, name: str) -> bool:
    limit = book.limits.get(name)
    return limit is not None and limit.kind == "rate"


def _computed_at(book: RuleBook, key: str) -> int | None:
    numbers = book.numbers.get(key)
    return numbers.computed_at if numbers else None


def _share(row: Any) -> ShareStatus:
    share, weight, declared, own, by, at, why, until, pending = row
    name = got(share)
    override = None if own is None else ShareWeight(name, own, got(by), at, got(why), until)
    return ShareStatus(name, weight, declared, override, pending)


def _worker(row: Any) -> WorkerStatus:
    id, tasks, threaded, queues, lease, host, pid, concurrency, registered_at, lease_until, running = row
    served = None if queues is None else tuple(map(got, queues))
    worker = Worker(
        got(id),
        frozenset(map(got, tasks)),
        served,
        lease,
        got(host),
        pid,
        concurrency,
        frozenset(map(got, threaded)),
    )
    return WorkerStatus(worker, registered_at, lease_until, running)


def holder(row: Any) -> Holder:
    """Who holds a slot: id, task, worker, since when, whether it is reserved, how many units."""
    id, task, worker, since, reserved, units = row
    return Holder(got(id), got(task), got_if(worker), since, reserved, units)


def _view(book: RuleBook, row: Any) -> JobView:
    (
        id, state, queue, task, priority, seq, due, keys, units, waiting_on, offered_by, refusals, worker,
        attempt, tries, set_aside, suspicion, lost, tag, share, start_by,
    ) = row  # fmt: skip
    return JobView(
        id=got(id), state=read_state(state), queue=got(queue), task=got(task), order=(priority, seq), due=due,
        uses=book.uses(got(task), got(queue), uses_if_readable(keys, units)),
        waiting_on=waiting_on and got_key(waiting_on),
        offered_by=offered_by and got_key(offered_by), refusals=refusals, worker=got_if(worker), attempt=attempt,
        tries=tries, set_aside=set_aside, suspicion=suspicion, lost=lost, tag=tag, share=got_if(share),
        start_by=start_by,
    )  # fmt: skip


def _states(wanted: Filter) -> list[str] | None:
    return None if wanted.states is None else [str(state) for state in wanted.states]


def _waits(wanted: Filter) -> bool:
    """Whether a job that waits on a key can match."""
    return (wanted.states is None or JobState.WAITING in wanted.states) and _ended(wanted) == (None, None)


def _ended(wanted: Filter) -> tuple[int | None, int | None]:
    return wanted.ended_since, wanted.ended_until


def _filter(wanted: Filter) -> tuple[Any, ...]:
    """What is asked of a job beside its state and the key that it waits on."""
    return (
        put_if(wanted.queue),
        put_if(wanted.task),
        put_if(wanted.tenant),
        None if wanted.ids is None else put_all(wanted.ids),
        put_if(wanted.unique),
        None if wanted.error is None else put_error(wanted.error),
    )
