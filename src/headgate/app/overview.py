"""How the store stands as a whole, cheap on a busy one: totals, the tightest keys, one key, history, SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from headgate.app.asking import Asking, check_size
from headgate.app.handle import not_found
from headgate.app.info import LimitInfo, limit_info
from headgate.app.store_info import (
    HistoryInfo,
    KeyInfo,
    SqlResult,
    TotalsInfo,
    history_info,
    key_info,
    totals_info,
)
from headgate.app.sync import twin
from headgate.clock import duration_us, instant_us
from headgate.engine.contract import Engine
from headgate.errors import ConfigError, LimitNotFound
from headgate.job import Job
from headgate.keys import Key, Use, check_text, parse

MINUTE = 60
MOST_SHOWN = 1000
"""Holders or waiters of one key in one answer."""
SHORTEST_STEP = MINUTE * 1_000_000


class Overview(Asking):
    """The part of an app that tells how its store stands."""

    async def totals(self, *, most: int | None = None) -> TotalsInfo:
        """How many jobs stand in each state. With `most` a store may stop counting a state's jobs once it has found so
        many; `partial` names those states."""
        engine = await self._client.engine()
        return totals_info(await engine.totals(most=None if most is None else check_size(most, "most")))

    async def tightest(self, *, size: int = 10) -> list[LimitInfo]:
        """The keys that most jobs wait on, most first."""
        most = check_size(size)
        engine = await self._client.engine()
        return [limit_info(status) for status in await engine.tightest(limit=most)]

    async def key(
        self, key: str, *, tenant: str | None = None, holders: int = 10, waiters: int = 10
    ) -> KeyInfo:
        """One key of a limit, `customer=42` or `task:send`: whether it has room, what holds it, what waits for it.

        Raises LimitNotFound if no such limit is declared. Without `tenant` it is the key of jobs that have none, or of
        all where the limit is shared."""
        name, value = parse(key)
        owner = "" if tenant is None else check_text(tenant, "tenant")
        shown = _shown(holders, "holders"), _shown(waiters, "waiters")
        engine = await self._client.engine()
        limits = await engine.limits(name, limit=1)
        found: list[KeyInfo] = []
        if limits:
            ident = Key(name, value, owner, limits[0].kind == "rate").ident
            found = await _keys(engine, [Use(ident)], *shown)
        if not found:
            raise LimitNotFound(f"no limit {name!r} is declared in this store; `headgate limits` lists them")
        return found[0]

    async def keys_of(self, id: str, *, holders: int = 3, waiters: int = 0) -> list[KeyInfo]:
        """All keys that a job needs, the caps of its task and its queue among them, each as it stands now."""
        shown = _shown(holders, "holders"), _shown(waiters, "waiters")
        engine = await self._client.engine()
        (job,) = await engine.get([check_text(id, "job id")])
        if job is None:
            raise not_found(id)
        return await _keys(engine, [*_caps(job), *job.uses], *shown)

    async def history(
        self,
        since: datetime | timedelta | float = 3600,
        *,
        step: timedelta | float = 60,
        queue: str | None = None,
        task: str | None = None,
        each: bool = False,
    ) -> list[HistoryInfo]:
        """What workers did from `since` on (a point in time, or how long ago), summed by spans of `step`, which are
        whole minutes. With `each` apart by queue and task. A store keeps a day of it."""
        span = _step(step)
        begin = instant_us(since, "since=") if isinstance(since, datetime) else None
        ago = 0 if isinstance(since, datetime) else duration_us(since, "since=")
        of_queue = None if queue is None else check_text(queue, "queue=")
        of_task = None if task is None else check_text(task, "task=")
        engine = await self._client.engine()
        if begin is None:
            begin = await engine.clock() - ago
        found = await engine.history(begin, step=span, queue=of_queue, task=of_task, each=each)
        return [history_info(done) for done in found]

    async def sql(self, query: str, *, size: int = 1000, timeout: timedelta | float = 10) -> SqlResult:
        """Ask in SQL, reading only, of tables that are the same on every store: see the reference of SQL.

        Times are texts in UTC. What is no such question, or would change anything, raises ConfigError with the store's
        own words."""
        if not isinstance(query, str) or not query.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"sql({query!r}): a question such as 'select * from jobs' is needed")
        most, seconds = check_size(size), duration_us(timeout, "timeout=")
        found = await (await self._client.engine()).select(query, limit=most, timeout=seconds)
        return SqlResult(
            columns=found.columns, rows=tuple(tuple(map(_plain, row)) for row in found.rows), more=found.more
        )

    totals_sync = twin(totals)
    tightest_sync = twin(tightest)
    key_sync = twin(key)
    keys_of_sync = twin(keys_of)
    history_sync = twin(history)
    sql_sync = twin(sql)


async def _keys(engine: Engine, uses: Sequence[Use], holders: int, waiters: int) -> list[KeyInfo]:
    """Those of the keys whose limit is declared."""
    found = await engine.keys([use.key for use in uses], holders=holders, waiters=waiters)
    return [
        key_info(status, use.units) for use, status in zip(uses, found, strict=True) if status is not None
    ]


def _caps(job: Job) -> list[Use]:
    return [Use(Key(f"task:{job.task}").ident), Use(Key(f"queue:{job.queue}").ident)]


def _shown(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_SHOWN:
        raise ConfigError(f"{what}={value!r}: a whole number from 0 to {MOST_SHOWN:,} is needed")
    return value


def _step(value: timedelta | float) -> int:
    step = duration_us(value, "step=")
    if step < SHORTEST_STEP or step % SHORTEST_STEP:
        raise ConfigError(f"step={value!r}: whole minutes are needed, such as 60 or 3600 seconds")
    return step


def _plain(value: Any) -> Any:
    """A value as all stores give it: points in time as texts in UTC, sums as numbers."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo is not None else value
        return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
