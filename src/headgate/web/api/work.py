"""The worker's side over HTTP: a program in any language becomes a worker, with leases, fences and limits.

    POST /work                   register: tasks, queues, concurrency, lease; answers with the worker's id
    POST /work/{id}/exchange     report what ended, claim what may start; long poll with wait
    POST /work/{id}/heartbeat    renew the lease, three times in it
    POST /work/{id}/resume       after any doubt (an error, a time-out): what the worker really runs
    DELETE /work/{id}            retire: what still runs is given back

Every exchange and resume carries a number that only grows; the store refuses an older one whole.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from headgate.app.remote_work import RemoteBeat, RemoteExchanged, RemoteReport, RemoteResumed, RemoteWorker
from headgate.web.route import Body, Call, Route

Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class RegisterBody(Body, frozen=True):
    """A worker. `queues` null serves all; `lease` in seconds; `name` begins its id."""

    tasks: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    concurrency: int = 10
    lease: float = 30
    name: str | None = None


class ExchangeBody(Body, frozen=True):
    """`number` is larger than any before; `want` how many jobs to claim; `wait` how many seconds the answer may take if
    there are none."""

    number: Number
    reports: tuple[RemoteReport, ...] = ()
    want: int = 0
    queues: tuple[str, ...] | None = None
    wait: float = 0


class ResumeBody(Body, frozen=True):
    """`known`: the (job, attempt) pairs that the worker runs or has yet to report."""

    number: Number
    known: tuple[tuple[str, int], ...] = ()


class Retired(msgspec.Struct, frozen=True):
    """The worker is no longer registered."""

    worker: str


async def register(call: Call, body: RegisterBody) -> RemoteWorker:
    """Register a worker"""
    host = call.request.client.host if call.request.client else ""
    return await call.app.remote_work.register(
        body.tasks,
        queues=body.queues,
        lease=body.lease,
        concurrency=body.concurrency,
        name=body.name or call.who.name,
        host=host,
    )


async def exchange(call: Call, body: ExchangeBody) -> RemoteExchanged:
    """Report what ended, and claim what may start

    Where nothing may start, the answer comes when something may have changed, after `wait` seconds at most.
    """
    wait = min(body.wait, call.settings.longest_wait)
    return await call.app.remote_work.exchange(
        call.path["id"], body.number, body.reports, body.want, body.queues, wait
    )


async def heartbeat(call: Call) -> RemoteBeat:
    """Renew a worker's lease"""
    return await call.app.remote_work.heartbeat(call.path["id"])


async def resume(call: Call, body: ResumeBody) -> RemoteResumed:
    """Agree with the store again on what a worker runs"""
    return await call.app.remote_work.resume(call.path["id"], body.number, body.known)


async def retire(call: Call) -> Retired:
    """End a worker's lease"""
    await call.app.remote_work.retire(call.path["id"])
    return Retired(call.path["id"])


LEASE = ("lease-lost", "stale-message")
ROUTES = (
    Route("POST", "/work", register, right="work", tag="Work", status=201),
    Route("POST", "/work/{id}/exchange", exchange, right="work", tag="Work", problems=LEASE, quiet=True),
    Route("POST", "/work/{id}/heartbeat", heartbeat, right="work", tag="Work", problems=LEASE, quiet=True),
    Route("POST", "/work/{id}/resume", resume, right="work", tag="Work", problems=LEASE, quiet=True),
    Route("DELETE", "/work/{id}", retire, right="work", tag="Work"),
)
