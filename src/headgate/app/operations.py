"""Seeing and steering: what an operator asks of an app, on one job, on many, on limits and queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack, cast

import msgspec

from headgate.app import internal_jobs
from headgate.app.asking import Asking, check_size
from headgate.app.counting import COUNTED, CountInfo, count_up_to
from headgate.app.defaults import TaskDefaults
from headgate.app.explain import Explanation
from headgate.app.failures import Failures, find_failures
from headgate.app.filters import JobFilter, counts_back, engine_filter, says_nothing
from headgate.app.handle import JobHandle, not_found
from headgate.app.info import (
    JobInfo,
    JobsPage,
    LimitInfo,
    QueueInfo,
    WorkerInfo,
    job_info,
    limit_info,
    queue_info,
    worker_info,
)
from headgate.app.known_names import unknown_cap, unknown_limit, unknown_queue, unknown_task
from headgate.app.steering import Changed, Verb, fitting_states, steer_ids, steer_matching, steer_one
from headgate.app.sync import twin
from headgate.app.until import ends_at
from headgate.clock import from_us
from headgate.engine.contract import Filter, LimitPlace, Override
from headgate.engine.rules.status import place as status_place
from headgate.errors import ConfigError
from headgate.job import INTERNAL_QUEUE
from headgate.keys import check_text, parse
from headgate.limits.declared import check_max

if TYPE_CHECKING:
    from headgate.app.audit import AuditReport

log = logging.getLogger("headgate.app")

LIMITS_PER_STEP = 1000

Which = str | JobHandle[Any] | Iterable[str | JobHandle[Any]]


class Operations(Asking):
    """The part of an app that looks at a store and steers it. Names like those of `headgate` on the command line."""

    _queues: dict[str, TaskDefaults]

    def handle(self, id: str) -> JobHandle[Any]:
        """A handle on a job, without looking whether it exists."""
        return JobHandle(self._client, check_text(id, "job id"))

    async def job(self, id: str) -> JobHandle[Any]:
        """A handle on a job that exists; raises JobNotFound."""
        if (await (await self._client.engine()).states([check_text(id, "job id")]))[0] is None:
            raise not_found(id)
        return self.handle(id)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def jobs(
        self, *, size: int = 100, after: str | None = None, **filter: Unpack[JobFilter]
    ) -> list[JobInfo]:
        """Jobs that match, newest first, at most `size`; `after` the id of the last one of the previous page.

        Filters are state, queue, task, tenant, limit, unique, ids, error, since and until; see
        `headgate.app.filters.JobFilter`.
        """
        most = check_size(size)
        wanted = await self._wanted(filter)
        if after is not None:
            check_text(after, "after=")
        engine = await self._client.engine()
        return [
            job_info(job, self._client.sealing)
            for job in await internal_jobs.find(engine, wanted, most, after)
        ]

    async def jobs_page(
        self, *, size: int = 100, after: str | None = None, **filter: Unpack[JobFilter]
    ) -> JobsPage:
        """Jobs that match, newest first, for a reader who waits: only so many jobs are looked at that the answer comes
        at once, however many the store has.

        So a page may hold fewer than `size` jobs, or none, while there are more: `next`, passed as `after`, goes on.
        """
        most = check_size(size)
        wanted = await self._wanted(filter)
        if after is not None:
            check_text(after, "after=")
        page = await internal_jobs.find_page(await self._client.engine(), wanted, most, after)
        jobs = tuple(job_info(job, self._client.sealing) for job in page.jobs)
        return JobsPage(jobs=jobs, next=page.rest)

    async def count(self, **filter: Unpack[JobFilter]) -> int:
        """How many jobs match."""
        wanted = await self._wanted(filter)
        return await internal_jobs.count(await self._client.engine(), wanted)

    async def count_up_to(self, most: int = COUNTED, **filter: Unpack[JobFilter]) -> CountInfo:
        """How many jobs match, for a reader who waits: counting stops at `most`, or when thousands were looked at.
        `exact` says whether all were counted."""
        bound = check_size(most, "most")
        wanted = await self._wanted(filter)
        return await count_up_to(await self._client.engine(), wanted, bound)

    async def failures(self, *, size: int = 1000, **filter: Unpack[JobFilter]) -> Failures:
        """Failed jobs that match, grouped by task and by the first line of their error, in which numbers, ids and what
        stands in quotes do not count. The newest `size` jobs are looked at."""
        if filter.get("state") is not None:
            raise ConfigError("failures() looks at failed jobs; leave state= out")
        most = check_size(size)
        wanted = await self._wanted({**filter, "state": "failed"})
        return await find_failures(await self._client.engine(), wanted, most)

    async def _wanted(self, filter: JobFilter) -> Filter:
        """The filter as the store takes it, checked before the store is opened."""
        wanted = engine_filter(filter)
        if not counts_back(filter):
            return wanted
        return engine_filter(filter, await (await self._client.engine()).clock())

    async def limits(
        self,
        name: str | None = None,
        *,
        size: int | None = None,
        after: LimitInfo | LimitPlace | None = None,
    ) -> list[LimitInfo]:
        """Each limit, followed by its keys that are held, waited for, overridden or computed; at most `size` of these.

        `after` is the last one of the previous page, or its `(name, key, tenant)`.
        """
        if name is not None:
            check_text(name, "limit name")
        most = None if size is None else check_size(size)
        place = _place(after)
        engine = await self._client.engine()
        found: list[LimitInfo] = []
        while most is None or len(found) < most:
            wanted = LIMITS_PER_STEP if most is None else min(LIMITS_PER_STEP, most - len(found))
            page = await engine.limits(name, after=place, limit=wanted)
            found += [limit_info(status) for status in page]
            if len(page) < wanted:
                break
            place = status_place(page[-1])
        return found

    async def now(self) -> datetime:
        """The store's clock, by which due times, leases and rates go."""
        return from_us(await (await self._client.engine()).clock())

    async def queues(self, *, most: int | None = None) -> list[QueueInfo]:
        """Every queue that has unfinished jobs or is paused. With `most` a store may stop counting the jobs of a state
        once it has found so many."""
        bound = None if most is None else check_size(most, "most")
        found = await (await self._client.engine()).queues(most=bound)
        return [queue_info(queue) for queue in found if queue.name != INTERNAL_QUEUE]

    async def workers(self) -> list[WorkerInfo]:
        """The registered workers."""
        return [worker_info(status) for status in await (await self._client.engine()).workers()]

    async def explain(self, id: str) -> Explanation:
        """Why a job is where it is; `str()` of it is a sentence."""
        return await self.handle(id).explain()

    async def unknown(
        self, *, queue: str | None = None, task: str | None = None, limit: str | None = None
    ) -> list[str]:
        """Sentences about names that nothing knows: no task, no worker, no job, no declared limit.

        A name that was mistyped is legal, and matches nothing."""
        engine = await self._client.engine()
        found = [
            None if queue is None else await unknown_queue(engine, queue, self.queue_names),
            None if task is None else await unknown_task(engine, task, self._tasks),
            None if limit is None else await unknown_limit(engine, limit, ()),
        ]
        return [sentence for sentence in found if sentence is not None]

    async def audit(
        self, *, repair: bool = False, progress: Callable[[int], None] | None = None
    ) -> AuditReport:
        """Check that everything the store keeps about admission fits together.

        With `repair` every key is looked at again first, in slices, and what cannot be is mended; `progress` is called
        with the number of slices so far.
        """
        from headgate.app.audit import AuditReport, find_problems
        from headgate.app.audit import repair as mend

        engine = await self._client.engine()
        repaired = await mend(engine, progress) if repair else ()
        return AuditReport(await find_problems(engine), repaired)

    # ── limits and queues ────────────────────────────────────────────────────────────────────────────────────────

    async def set_limit(
        self,
        key: str,
        max: int | None,
        *,
        by: str = "",
        why: str = "",
        until: datetime | timedelta | float | None = None,
        tenant: str | None = None,
    ) -> None:
        """Override a limit (`customer`) or one key of it (`customer=42`), at once and until it is cleared or runs out.

        0 closes it, None lifts it. `until` is a point in time, or a duration from now. Without `tenant` it speaks for
        every tenant. What no job could ever meet is refused.
        """
        name, value = parse(key)
        number = None if max is None else check_max(max, f"the limit of {key!r}")
        owner = None if tenant is None else check_text(tenant, "tenant")
        _check_cap(name, value, owner)
        if owner is not None and self._is_shared(name):
            raise ConfigError(
                f"limit {name!r} is declared shared=True, so all tenants have the same keys; leave tenant={owner!r} out"
            )
        engine = await self._client.engine()
        _point_out(await unknown_cap(engine, name, self._tasks, self.queue_names))
        now = await engine.clock()
        await engine.override(Override(name, number, value, owner, by, now, why, ends_at(until, now)))

    @property
    def queue_names(self) -> set[str]:
        """The queues that this program speaks of: those of its tasks, and those that it declares."""
        return {task.queue for task in self._tasks.values()} | set(self._queues)

    def _is_shared(self, name: str) -> bool:
        """Whether the tasks of this app use a limit, and all of them without tenants."""
        uses = [
            bound.limit.shared
            for task in self._tasks.values()
            for bound in task.limits.bound
            if bound.name == name
        ]
        return bool(uses) and all(uses)

    async def clear_limit(self, key: str, *, tenant: str | None = None) -> bool:
        """Take an override back; False if there was none."""
        name, value = parse(key)
        return await (await self._client.engine()).clear_override(name, value, tenant)

    async def pause(self, queue: str) -> bool:
        """Start nothing more from a queue; what runs goes on. False if it was paused already."""
        engine = await self._client.engine()
        _point_out(await unknown_queue(engine, check_text(queue, "queue"), self.queue_names))
        return await engine.pause(queue)

    async def resume(self, queue: str) -> bool:
        """Start jobs from a queue again; False if it was not paused."""
        return await (await self._client.engine()).resume(check_text(queue, "queue"))

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, which: Which | None = None, **filter: Unpack[JobFilter]) -> Changed:
        """End jobs: an id, several, or all that match a filter as in `jobs()`. A single id that refuses raises."""
        return await self._steer("cancel", which, filter)

    async def restart(
        self,
        which: Which | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        **filter: Unpack[JobFilter],
    ) -> Changed:
        """Run failed or cancelled jobs again: an id, several, or a filter.

        `arguments`, for a single job of a task of this program, replace those of its arguments that they name. They are
        checked, and limits bound to them, as for a new job."""
        if arguments is None:
            return await self._steer("restart", which, filter)
        if not isinstance(which, str | JobHandle) or not says_nothing(filter):
            raise ConfigError("restart(arguments=…) is for one job: give its id or handle, and no filter")
        await self.handle(_id(which)).restart(arguments)
        return Changed(1)

    async def expedite(self, which: Which | None = None, **filter: Unpack[JobFilter]) -> Changed:
        """Make scheduled jobs due now: an id, several, or a filter."""
        return await self._steer("expedite", which, filter)

    async def delete(self, which: Which | None = None, **filter: Unpack[JobFilter]) -> Changed:
        """Remove ended jobs: an id, several, or a filter."""
        return await self._steer("delete", which, filter)

    async def _steer(self, verb: Verb, which: Which | None, filter: JobFilter) -> Changed:
        wanted = await self._wanted(filter)
        if (which is None) == says_nothing(filter):
            raise ConfigError(
                f"{verb}() takes either ids or a filter such as queue='email', and one of them it needs"
            )
        if which is None:
            wanted = msgspec.structs.replace(wanted, states=fitting_states(verb, wanted.states))
            return await steer_matching(await self._client.engine(), verb, wanted)
        ids = _ids(which)
        engine = await self._client.engine()
        if isinstance(which, str | JobHandle):
            return await steer_one(engine, verb, ids[0])
        return await steer_ids(engine, verb, ids)

    job_sync = twin(job)
    jobs_sync = twin(jobs)
    jobs_page_sync = twin(jobs_page)
    count_sync = twin(count)
    count_up_to_sync = twin(count_up_to)
    failures_sync = twin(failures)
    limits_sync = twin(limits)
    now_sync = twin(now)
    queues_sync = twin(queues)
    workers_sync = twin(workers)
    explain_sync = twin(explain)
    audit_sync = twin(audit)
    unknown_sync = twin(unknown)
    set_limit_sync = twin(set_limit)
    clear_limit_sync = twin(clear_limit)
    pause_sync = twin(pause)
    resume_sync = twin(resume)
    cancel_sync = twin(cancel)
    restart_sync = twin(restart)
    expedite_sync = twin(expedite)
    delete_sync = twin(delete)


def _ids(which: Which) -> list[str]:
    if isinstance(which, str | JobHandle):
        return [_id(which)]
    if not isinstance(which, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{which!r} is neither a job's id or handle nor a list of them")
    return [_id(one) for one in which]


def _id(which: str | JobHandle[Any]) -> str:
    return which.id if isinstance(which, JobHandle) else check_text(which, "job id")


def _place(after: Any) -> LimitPlace | None:
    """Where a page of limits begins."""
    if after is None:
        return None
    if isinstance(after, LimitInfo):
        return after.name, after.key, after.tenant or ""
    parts = cast("tuple[Any, ...]", after) if isinstance(after, tuple) else ()
    if len(parts) != 3 or not all(isinstance(one, str) for one in parts):
        raise ConfigError(
            f"after={after!r}: the last LimitInfo of a page, or its (name, key, tenant), is needed"
        )
    return parts


def _point_out(sentence: str | None) -> None:
    """What is legal and yet looks like a mistake is said, not refused: the first job may come later."""
    if sentence is not None:
        log.warning("%s", sentence)


def _check_cap(name: str, value: str | None, tenant: str | None) -> None:
    """The caps of tasks and queues are one for all: they have neither keys nor tenants."""
    kind, colon, called = name.partition(":")
    if not colon or kind not in ("task", "queue"):
        return
    if value is not None:
        other = "; a queue whose name has '=' cannot be capped" if kind == "queue" else ""
        raise ConfigError(
            f"limit key {f'{name}={value}'!r}: the cap of {kind} {called!r} has no keys; write {name!r}{other}"
        )
    if tenant is not None:
        raise ConfigError(
            f"the cap {name!r} is shared by all tenants; leave tenant={tenant!r} out, or declare a limit of the task's "
            "own, which tenants have each"
        )
