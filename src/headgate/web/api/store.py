"""Limits, queues, workers and the store as a whole over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headgate.app.info import LimitInfo, QueueInfo, WorkerInfo
from headgate.app.store_info import KeyInfo
from headgate.engine.contract import ImportResult
from headgate.web.api.pages import Page, check_size, cursor, place
from headgate.web.events import COUNTED
from headgate.web.problems import Refusal
from headgate.web.route import Body, Call, Query, Route

MOST_RECORDS = 1000


class LimitsQuery(Query, frozen=True):
    """`name`: one limit and its keys only."""

    name: str | None = None
    size: int = 100
    after: str | None = None


class TenantQuery(Query, frozen=True):
    """`tenant`: only this tenant's keys; without it, all."""

    tenant: str | None = None


class KeyQuery(TenantQuery, frozen=True):
    """`tenant`: whose key; without it that of jobs that have none, or of all where the limit is shared. `holders` and
    `waiters`: how many of them are named."""

    holders: int = 10
    waiters: int = 10


class QueuesQuery(Query, frozen=True):
    """`most`: a store may stop counting a state's jobs once it has found so many."""

    most: int = COUNTED


class OverrideBody(Body, frozen=True):
    """The number: null lifts the limit, 0 closes it. `until` is a time, or seconds from now; `why` is shown with it."""

    max: int | None
    why: str = ""
    until: datetime | float | None = None

    def noted(self) -> str:
        return msgspec.json.encode(self).decode()


class Done(msgspec.Struct, frozen=True):
    """`changed` is false where it was so already."""

    changed: bool


class AuditQuery(Query, frozen=True):
    """`repair`: look at every key again first, and mend what cannot be."""

    repair: bool = False


class AuditBody(msgspec.Struct, frozen=True):
    """`ok`, or what does not fit together. `repaired` is what was mended."""

    ok: bool
    problems: tuple[str, ...]
    repaired: tuple[str, ...]


class ImportBody(Body, frozen=True):
    """Up to 1,000 records, as `headgate import` takes them."""

    records: tuple[dict[str, Any], ...]

    def noted(self) -> str:
        return f"{len(self.records)} records"


async def list_limits(call: Call, query: LimitsQuery) -> Page[LimitInfo]:
    """List limits, each followed by its keys in use"""
    size = check_size(query.size)
    after = None if query.after is None else place(query.after, 3)
    found = await call.app.limits(query.name, size=size, after=after)  # pyright: ignore[reportArgumentType]
    last = found[-1] if len(found) == size else None
    return Page(found, None if last is None else cursor((last.name, last.key, last.tenant or "")))


async def get_key(call: Call, query: KeyQuery) -> KeyInfo:
    """One key of a limit: whether it has room, what holds it, what waits for it

    `customer=42`, `task:send`, or the name of a limit without keys.
    """
    return await call.app.key(
        call.path["key"], tenant=query.tenant, holders=query.holders, waiters=query.waiters
    )


async def set_limit(call: Call, query: TenantQuery, body: OverrideBody) -> Done:
    """Override a limit, or one key of it, at once"""
    await call.app.set_limit(
        call.path["key"], body.max, by=call.who.name, why=body.why, until=body.until, tenant=query.tenant
    )
    return Done(True)


async def clear_limit(call: Call, query: TenantQuery) -> Done:
    """Take an override back"""
    return Done(await call.app.clear_limit(call.path["key"], tenant=query.tenant))


async def list_queues(call: Call, query: QueuesQuery) -> list[QueueInfo]:
    """List the queues that have unfinished jobs or are paused

    Where `exact` is false, the numbers are lower bounds: a store may stop counting after `most` jobs.
    """
    return await call.app.queues(most=query.most)


async def pause_queue(call: Call) -> Done:
    """Start nothing more from a queue"""
    return Done(await call.app.pause(call.path["name"]))


async def resume_queue(call: Call) -> Done:
    """Start jobs from a queue again"""
    return Done(await call.app.resume(call.path["name"]))


async def list_workers(call: Call) -> list[WorkerInfo]:
    """List the registered workers"""
    return await call.app.workers()


async def audit(call: Call, query: AuditQuery) -> AuditBody:
    """Check that everything the store keeps about admission fits together"""
    if query.repair and call.settings.read_only:
        raise Refusal("read-only", "this server was started to look only (--read-only); leave repair out")
    report = await call.app.audit(repair=query.repair)
    return AuditBody(report.ok, tuple(report.problems), tuple(report.repaired))


async def import_jobs(call: Call, body: ImportBody) -> list[ImportResult]:
    """Take over jobs with their history from another system

    Each record is taken or refused alone.
    """
    if len(body.records) > MOST_RECORDS:
        raise Refusal("invalid", f"{len(body.records):,} records: {MOST_RECORDS:,} at once, at most")
    return await call.app.import_jobs(body.records)


ROUTES = (
    Route("GET", "/limits", list_limits, right="look", tag="Limits"),
    Route("PUT", "/limits/{key:path}/override", set_limit, right="steer", tag="Limits"),
    Route("DELETE", "/limits/{key:path}/override", clear_limit, right="steer", tag="Limits"),
    Route("GET", "/limits/{key:path}", get_key, right="look", tag="Limits", problems=("not-found",)),
    Route("GET", "/queues", list_queues, right="look", tag="Queues"),
    Route("POST", "/queues/{name:path}/pause", pause_queue, right="steer", tag="Queues"),
    Route("POST", "/queues/{name:path}/resume", resume_queue, right="steer", tag="Queues"),
    Route("GET", "/workers", list_workers, right="look", tag="Workers"),
    Route("POST", "/audit", audit, right="keep", tag="Store", reads_only=True),
    Route("POST", "/import", import_jobs, right="keep", tag="Store"),
)
