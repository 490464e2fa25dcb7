"""Where the rows of virtual tables come from: any store, through the verbs of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from headgate.engine.contract import Engine, Filter, LimitStatus
from headgate.engine.tables import rows
from headgate.engine.tables.rows import Row
from headgate.job import Job, JobState
from headgate.keys import Key

Wanted = Mapping[str, str]
"""What columns must be equal to. A source may give rows that differ: SQLite looks again."""
PAGE = 1000


class Source(Protocol):
    """Reads the tables, a page at a time, on the event loop."""

    def pages(self, table: str, wanted: Wanted, /) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table, of which `found_by` columns may be wanted; each page is read when it is needed."""
        ...


class VerbSource:
    """Reads through the engine's verbs, none of which reads more than a page of jobs at once."""

    def __init__(self, engine: Engine, page: int = PAGE) -> None:
        self._engine = engine
        self._page = page

    def pages(self, table: str, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table."""
        match table:
            case "jobs":
                return self._jobs(wanted)
            case "attempts":
                return self._attempts(wanted)
            case "holders":
                return self._holders(wanted)
            case "waiters":
                return self._waiters(wanted)
            case _:
                return self._small(table, wanted)

    async def _small(self, table: str, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        """What has a row per limit, queue or worker comes as a whole."""
        match table:
            case "limits":
                yield [rows.limit_row(status) for status in await self._engine.limits(wanted.get("name"))]
            case "overrides":
                yield rows.override_rows(await self._engine.limits())
            case "queues":
                yield [rows.queue_row(queue) for queue in await self._engine.queues()]
            case "workers":
                yield [rows.worker_row(worker) for worker in await self._engine.workers()]
            case _:
                raise LookupError(table)

    async def _jobs(self, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        if "id" in wanted:
            yield [rows.job_row(job) for job in await self._engine.get([wanted["id"]]) if job is not None]
            return
        state = wanted.get("state")
        if state is not None and state not in set(JobState):
            return
        filter = Filter(
            states=None if state is None else (JobState(state),),
            queue=wanted.get("queue"),
            task=wanted.get("task"),
            tenant=wanted.get("tenant"),
        )
        async for page in self._found(filter):
            yield [rows.job_row(job) for job in page]

    async def _found(self, filter: Filter) -> AsyncIterator[Sequence[Job]]:
        """Jobs page by page. Where the last job of a page is gone before the next is asked for, the store begins anew:
        what was seen before is left out."""
        seen: set[str] = set()
        after: str | None = None
        while page := await self._engine.find(filter, limit=self._page, after=after):
            after = page[-1].id
            yield [job for job in page if job.id not in seen]
            if len(page) < self._page:
                return
            seen.update(job.id for job in page)

    async def _attempts(self, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        if "job" in wanted:
            yield self._of_jobs(await self._engine.get([wanted["job"]]))
            return
        async for page in self._found(Filter()):
            yield self._of_jobs(await self._engine.get([job.id for job in page if job.attempt]))

    def _of_jobs(self, jobs: Sequence[Job | None]) -> Sequence[Row]:
        return [row for job in jobs if job is not None for row in rows.attempt_rows(job)]

    async def _waiters(self, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        async for page in self._found(Filter(states=(JobState.WAITING,), waiting_on=wanted.get("key"))):
            yield [rows.waiter_row(job) for job in page if job.waiting_on is not None]

    async def _holders(self, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        text = wanted.get("key")
        name = None if text is None else text.partition("=")[0]
        statuses = [status for status in await self._engine.limits(name) if status.held]
        if text is not None:
            statuses = [status for status in statuses if status.key == text]
        for first in range(0, len(statuses), self._page):
            yield await self._held(statuses[first : first + self._page])

    async def _held(self, statuses: Sequence[LimitStatus]) -> Sequence[Row]:
        """What holds these keys. A limit as such shows the sum of its keys; of its own it may hold nothing."""
        keys = [_key(status) for status in statuses]
        most = max(status.held for status in statuses)
        found = await self._engine.keys([key.ident for key in keys], holders=most)
        held = [
            (key, holder)
            for key, status in zip(keys, found, strict=True)
            if status is not None
            for holder in status.holders
        ]
        ids = tuple({holder.job for _, holder in held})
        queues = {job.id: job.queue for job in await self._engine.find(Filter(ids=ids), limit=len(ids) or 1)}
        return [rows.holder_row(key, holder, queues.get(holder.job)) for key, holder in held]


def _key(status: LimitStatus) -> Key:
    _, equals, value = status.key.partition("=")
    return Key(status.name, value if equals else None, status.tenant, status.kind == "rate")
