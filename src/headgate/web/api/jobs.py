"""Jobs over HTTP: one, many, waiting for one, steering one, several or all that match."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headgate.app.counting import CountInfo
from headgate.app.filters import engine_filter
from headgate.app.handle import JobHandle
from headgate.app.info import Info
from headgate.app.steering import Changed, Verb, fitting_states
from headgate.app.store_info import KeyInfo
from headgate.engine.contract import Verdict
from headgate.errors import HeadgateError
from headgate.job import JobState
from headgate.web.api.matching import Filter, StateQuery, filter_of
from headgate.web.api.pages import Page, check_size, cursor, place
from headgate.web.api.shown import JobShown, hides, sentence, shown
from headgate.web.problems import Refusal
from headgate.web.route import Body, Call, Query, Route


class JobsQuery(StateQuery, frozen=True):
    """`size` jobs at most; `after` is the `next` of the page before."""

    size: int = 50
    after: str | None = None


class WaitQuery(Query, frozen=True):
    """`wait`: seconds to wait for the job's end, at most."""

    wait: float = 0


class KeysQuery(Query, frozen=True):
    """How many holders and waiters of each key are named."""

    holders: int = 3
    waiters: int = 0


class Which(Body, frozen=True):
    """Jobs by their ids, or all that match a filter, which must say something. With `dry_run` they are only counted."""

    ids: tuple[str, ...] | None = None
    filter: Filter | None = None
    dry_run: bool = False

    def noted(self) -> str:
        many = f"{len(self.ids)} ids" if self.ids is not None else msgspec.json.encode(self.filter).decode()
        return f"{many}{' (dry run)' if self.dry_run else ''}"


class Restart(Body, frozen=True):
    """Arguments that take the place of a job's own; those that are not named stay."""

    args: dict[str, Any] | None = None


class CountQuery(StateQuery, frozen=True):
    """`exact`: count all, however long that takes."""

    exact: bool = False


class ManySteered(msgspec.Struct, frozen=True):
    """What became of many jobs: how many were changed, which refused and in which state, how many of those that were
    cancelled run on and were asked to stop. `matching` is the answer to a dry run; where `exact` is false, there are at
    least so many."""

    done: int = 0
    refused: tuple[Verdict, ...] = ()
    asked: int = 0
    matching: int | None = None
    exact: bool | None = None


class Steered(msgspec.Struct, frozen=True):
    """What became of one job that was steered."""

    id: str
    state: JobState


class ExplanationBody(Info, frozen=True):
    """Why a job is where it is. `sentence` is for people."""

    id: str
    state: JobState
    sentence: str
    key: str | None
    tenant: str | None
    holders: tuple[str, ...]
    place: int | None
    earliest: datetime | None


async def list_jobs(call: Call, query: JobsQuery) -> Page[dict[str, Any]]:
    """List jobs, newest first

    A page looks at so many jobs only that it answers at once: of a filter that few match it may hold fewer than `size`,
    or none, and have a `next`.
    """
    size = check_size(query.size)
    after = None if query.after is None else place(query.after, 1)[0]
    found = await call.app.jobs_page(size=size, after=after, **filter_of(query))
    following = None if found.next is None else cursor((found.next,))
    return Page([shown(call, info) for info in found.jobs], following)


async def count_jobs(call: Call, query: CountQuery) -> CountInfo:
    """Count jobs

    As far as can be looked through at once, some thousands; where `exact` is false, there are at least so many.
    With `exact=true` all are counted.
    """
    if query.exact:
        return CountInfo(matching=await call.app.count(**filter_of(query)), exact=True)
    return await call.app.count_up_to(**filter_of(query))


async def get_job(call: Call, query: WaitQuery) -> dict[str, Any]:
    """One job, with its attempts

    With `wait` the answer comes when the job has ended, or when the time is over; `state` tells which.
    """
    handle = call.app.handle(call.path["id"])
    if query.wait > 0:
        await _ended(handle, min(query.wait, call.settings.longest_wait))
    return shown(call, await handle.info())


async def _ended(handle: JobHandle[Any], wait: float) -> None:
    """Until the job has ended, however, or the time is over; a job that is not there is the caller's to find."""
    try:
        await handle.result(timeout=wait)
    except (HeadgateError, TimeoutError):
        return


async def explain_job(call: Call) -> ExplanationBody:
    """Why a job is where it is"""
    handle = call.app.handle(call.path["id"])
    found = await handle.explain()
    info = await handle.info() if hides(call.who, call.settings) else None
    told = msgspec.structs.replace(found, sentence=sentence(found, info, call.who, call.settings))
    return msgspec.convert(told, ExplanationBody, from_attributes=True)


async def keys_of_job(call: Call, query: KeysQuery) -> list[KeyInfo]:
    """All keys that a job needs, each as it stands now

    The caps of its task and its queue are among them. `free` says whether a key has room; `holders` and `waiters` are
    the first of them.
    """
    return await call.app.keys_of(call.path["id"], holders=query.holders, waiters=query.waiters)


async def cancel_job(call: Call) -> Steered:
    """Cancel a job

    One that runs is asked to stop: its state is still `running` in the answer.
    """
    handle = call.app.handle(call.path["id"])
    return Steered(handle.id, await handle.cancel())


async def restart_job(call: Call, body: Restart) -> Steered:
    """Run a failed or cancelled job again

    With `args`, those arguments take the place of its own that have the same names.
    """
    handle = call.app.handle(call.path["id"])
    return Steered(handle.id, await handle.restart(body.args))


async def expedite_job(call: Call) -> Steered:
    """Make a scheduled job due now"""
    handle = call.app.handle(call.path["id"])
    return Steered(handle.id, await handle.expedite())


async def delete_job(call: Call) -> Steered:
    """Delete a job that has ended

    The answer has the state that it had.
    """
    handle = call.app.handle(call.path["id"])
    return Steered(handle.id, await handle.delete())


async def cancel_jobs(call: Call, body: Which) -> ManySteered:
    """Cancel several jobs, or all that match"""
    return await _steer(call, body, "cancel")


async def restart_jobs(call: Call, body: Which) -> ManySteered:
    """Run several failed or cancelled jobs again, or all that match"""
    return await _steer(call, body, "restart")


async def expedite_jobs(call: Call, body: Which) -> ManySteered:
    """Make several scheduled jobs due now, or all that match"""
    return await _steer(call, body, "expedite")


async def delete_jobs(call: Call, body: Which) -> ManySteered:
    """Delete several jobs that have ended, or all that match"""
    return await _steer(call, body, "delete")


async def _steer(call: Call, body: Which, verb: Verb) -> ManySteered:
    if (body.ids is None) == (body.filter is None):
        raise Refusal("invalid", "either ids or a filter is needed")
    if body.ids is not None:
        if body.dry_run:
            return _counted(await call.app.count_up_to(ids=body.ids))
        return _many(await getattr(call.app, verb)(list(body.ids)))
    assert body.filter is not None
    filter = body.filter.given()
    if body.dry_run:
        states = fitting_states(verb, engine_filter(filter).states)
        return _counted(await call.app.count_up_to(**{**filter, "state": states}))
    return _many(await getattr(call.app, verb)(**filter))


def _counted(found: CountInfo) -> ManySteered:
    return ManySteered(matching=found.matching, exact=found.exact)


def _many(changed: Changed) -> ManySteered:
    return ManySteered(done=changed.done, refused=changed.refused, asked=changed.asked)


def _one(verb: str, handler: Any) -> Route:
    problems = ("not-found", "wrong-state")
    return Route("POST", f"/jobs/{{id:path}}/{verb}", handler, right="steer", tag="Jobs", problems=problems)


ROUTES = (
    Route("GET", "/jobs", list_jobs, right="look", tag="Jobs", answer=Page[JobShown]),
    Route("GET", "/jobs/count", count_jobs, right="look", tag="Jobs"),
    Route("POST", "/jobs/cancel", cancel_jobs, right="steer", tag="Jobs"),
    Route("POST", "/jobs/restart", restart_jobs, right="steer", tag="Jobs"),
    Route("POST", "/jobs/expedite", expedite_jobs, right="steer", tag="Jobs"),
    Route("POST", "/jobs/delete", delete_jobs, right="steer", tag="Jobs"),
    Route("GET", "/jobs/{id:path}/explain", explain_job, right="look", tag="Jobs", problems=("not-found",)),
    Route("GET", "/jobs/{id:path}/keys", keys_of_job, right="look", tag="Jobs", problems=("not-found",)),
    _one("cancel", cancel_job),
    _one("restart", restart_job),
    _one("expedite", expedite_job),
)
ONE_JOB = (
    Route(
        "GET", "/jobs/{id:path}", get_job, right="look", tag="Jobs", problems=("not-found",), answer=JobShown
    ),
    Route(
        "DELETE",
        "/jobs/{id:path}",
        delete_job,
        right="steer",
        tag="Jobs",
        problems=("not-found", "wrong-state"),
    ),
)
"""Behind all other paths that begin so: an id may contain a slash."""
