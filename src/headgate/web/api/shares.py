"""Fair shares over HTTP: what they weigh, and how many of their jobs wait."""

from __future__ import annotations

from datetime import datetime

from headgate.app.fair_shares import ShareInfo
from headgate.web.api.pages import Page, check_size, cursor, place
from headgate.web.api.store import Done
from headgate.web.route import Body, Call, Query, Route


class SharesQuery(Query, frozen=True):
    """A page of shares."""

    size: int = 50
    after: str | None = None


class WeightBody(Body, frozen=True):
    """An operator's weight; 3 gets three starts for each of a share of weight 1. `until` is a time, or seconds from
    now."""

    weight: float
    why: str = ""
    until: float | datetime | None = None


async def list_shares(call: Call, query: SharesQuery) -> Page[ShareInfo]:
    """List the fair shares that have ready or waiting jobs, or a weight"""
    size = check_size(query.size)
    after = None if query.after is None else place(query.after, 1)[0]
    found = await call.app.shares(size=size, after=after)
    return Page(found, cursor((found[-1].share,)) if len(found) == size else None)


async def set_share(call: Call, body: WeightBody) -> Done:
    """Give a share another weight, also for its jobs that wait"""
    await call.app.set_share(
        call.path["share"], body.weight, by=call.who.name, why=body.why, until=body.until
    )
    return Done(True)


async def clear_share(call: Call) -> Done:
    """Take an operator's weight back"""
    return Done(await call.app.clear_share(call.path["share"]))


ROUTES = (
    Route("GET", "/shares", list_shares, right="look", tag="Shares"),
    Route("PUT", "/shares/{share:path}/weight", set_share, right="steer", tag="Shares"),
    Route("DELETE", "/shares/{share:path}/weight", clear_share, right="steer", tag="Shares"),
)
