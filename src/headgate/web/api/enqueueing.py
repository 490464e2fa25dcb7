"""Enqueueing over HTTP: a task that the server's code knows, or any other one, spelled out."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from headgate.app.handle import JobHandle
from headgate.app.importing import ImportRetry
from headgate.errors import JobExists
from headgate.job import JobState, NewJob, OnConflict
from headgate.limits.imported import ImportLimit, as_declared
from headgate.web.problems import Refusal
from headgate.web.route import Body, Call, Created, Route

IDEMPOTENCY = "idempotency-key"
MOST_JOBS = 1000


class NewJobBody(Body, frozen=True):
    """A job. `args` are its arguments by name. A task that this server's code does not know needs `raw: true`: its
    arguments are not checked then, and it has the limits that are given here and no others. Times in seconds."""

    task: str
    args: dict[str, Any] = {}
    raw: bool = False
    id: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    at: datetime | None = None
    tenant: str | None = None
    unique: str | None = None
    on_conflict: OnConflict | None = None
    at_most: float | None = None
    unique_for: float | None = None
    expires: float | datetime | None = None
    share: str | None = None
    metadata: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    timeout: float | None = None
    retention: float | None = None
    limits: tuple[ImportLimit, ...] = ()
    retry: ImportRetry | None = None


class ManyJobs(Body, frozen=True):
    """Up to 1,000 jobs, all or none."""

    jobs: tuple[NewJobBody, ...]


class EnqueuedJob(msgspec.Struct, frozen=True):
    """`created` is false where an unfinished job with the same unique key, or the same request, was there already."""

    id: str
    created: bool
    state: JobState | None = None


async def enqueue(call: Call, body: NewJobBody) -> Created[EnqueuedJob]:
    """Enqueue a job

    With the header `Idempotency-Key`, which becomes the job's id, the request may be sent again: the job is enqueued
    once, and the answer is the same.
    """
    key = call.request.headers.get(IDEMPOTENCY)
    if key is not None and body.id not in (None, key):
        raise Refusal("invalid", f"Idempotency-Key {key!r} is the job's id, and the body says id={body.id!r}")
    job = _job(call, body, key or body.id)
    try:
        handle = await call.app.enqueue(job)
    except JobExists:
        if key is None:
            raise
        handle = await _the_same(call, key, job)
    headers = {"Location": f"{call.root}/jobs/{quote(handle.id)}"}
    return Created(EnqueuedJob(handle.id, handle.created), 201 if handle.created else 200, headers)


async def enqueue_many(call: Call, body: ManyJobs) -> list[EnqueuedJob]:
    """Enqueue up to 1,000 jobs, all or none"""
    if not 1 <= len(body.jobs) <= MOST_JOBS:
        raise Refusal("invalid", f"{len(body.jobs)} jobs: from 1 to {MOST_JOBS:,} at once")
    jobs = [_numbered(call, one, place) for place, one in enumerate(body.jobs)]
    return [EnqueuedJob(handle.id, handle.created) for handle in await call.app.enqueue_many(jobs)]


def _numbered(call: Call, body: NewJobBody, place: int) -> NewJob:
    try:
        return _job(call, body, body.id)
    except Exception as error:
        error.args = (f"jobs[{place}]: {error}",)
        raise


def _job(call: Call, body: NewJobBody, id: str | None) -> NewJob:
    options: dict[str, Any] = {
        "id": id, "priority": body.priority, "delay": body.delay, "at": body.at, "tenant": body.tenant,
        "unique": body.unique, "on_conflict": body.on_conflict, "metadata": body.metadata, "timeout": body.timeout,
        "retention": body.retention, "headers": body.headers, "at_most": body.at_most,
        "unique_for": body.unique_for, "expires": body.expires, "share": body.share,
    }  # fmt: skip
    if body.raw:
        job = call.app.raw_job(
            body.task, body.args, queue=body.queue or "default", limits=body.limits, **options
        )
        return job if body.retry is None else msgspec.structs.replace(job, retry=body.retry.policy())
    task = call.app.tasks.get(body.task)
    if task is None:
        known = ", ".join(sorted(call.app.tasks)) or "none"
        raise Refusal(
            "invalid",
            f"this server's code has no task {body.task!r} (it has: {known}); with raw: true it can be enqueued "
            "all the same, with its limits spelled out",
        )
    limits = [as_declared(limit) for limit in body.limits]
    job = task.options(queue=body.queue, limits=limits, **options).job(**body.args)
    return job if body.retry is None else msgspec.structs.replace(job, retry=body.retry.policy())


async def _the_same(call: Call, id: str, job: NewJob) -> JobHandle[Any]:
    """The job of the first request with this key; another one's key is refused."""
    handle = await call.app.job(id)
    info = await handle.info()
    if info.task != job.task or info.args != msgspec.json.decode(job.args):
        raise Refusal("exists", f"Idempotency-Key {id!r} was used for another job, of task {info.task!r}")
    return handle


REFUSED = ("exists", "backlog-full")
ROUTES = (
    Route("POST", "/jobs", enqueue, right="enqueue", tag="Jobs", status=201, problems=REFUSED),
    Route("POST", "/jobs/batch", enqueue_many, right="enqueue", tag="Jobs", status=201, problems=REFUSED),
)
