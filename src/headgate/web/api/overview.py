"""How a store stands, over HTTP: totals, what is tight, history, failures, and questions in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headgate.app.failures import Failures
from headgate.app.info import LimitInfo
from headgate.app.store_info import HistoryInfo, SqlResult, TotalsInfo
from headgate.errors import ConfigError
from headgate.web.api.matching import FilterQuery, filter_of, moment
from headgate.web.api.pages import MOST_SIZE, check_size
from headgate.web.api.shown import failures_shown, hides
from headgate.web.events import COUNTED
from headgate.web.problems import Refusal
from headgate.web.route import Body, Call, Query, Route

LONGEST_QUESTION = 30.0
"""Seconds that a question in SQL may take."""


class TotalsQuery(Query, frozen=True):
    """`most`: a store may stop counting a state's jobs once it has found so many."""

    most: int = COUNTED


class TightestQuery(Query, frozen=True):
    """`size`: how many keys at most."""

    size: int = 10


class HistoryQuery(Query, frozen=True):
    """`since`: a time in ISO 8601, or so many seconds ago. `step`: the seconds of one span, whole minutes. `each`:
    apart by queue and task."""

    since: str = "3600"
    step: float = 60
    queue: str | None = None
    task: str | None = None
    each: bool = False


class FailuresQuery(FilterQuery, frozen=True):
    """`size`: how many failed jobs are looked at, the newest ones."""

    size: int = 1000


class SqlBody(Body, frozen=True):
    """One question, in the dialect of the store. `size` rows at most; `timeout` in seconds."""

    query: str
    size: int = 1000
    timeout: float = 10

    def noted(self) -> str:
        return self.query


async def totals(call: Call, query: TotalsQuery) -> TotalsInfo:
    """How many jobs stand in each state"""
    return await call.app.totals(most=query.most)


async def tightest(call: Call, query: TightestQuery) -> list[LimitInfo]:
    """The keys that most jobs wait on, most first"""
    return await call.app.tightest(size=check_size(query.size))


async def history(call: Call, query: HistoryQuery) -> list[HistoryInfo]:
    """What workers did, by spans of time

    A store keeps a day of it, by the minute. Spans in which nothing was done are left out.
    """
    return await call.app.history(
        _since(query.since), step=query.step, queue=query.queue, task=query.task, each=query.each
    )


async def failures(call: Call, query: FailuresQuery) -> Failures:
    """Failed jobs, grouped by task and error

    `common` of a group, as the filter `error`, finds its jobs again: to restart them, for instance.
    """
    found = await call.app.failures(size=check_size(query.size), **filter_of(query))
    if not hides(call.who, call.settings):
        return found
    newest = [group.ids[0] for group in found.groups][:MOST_SIZE]
    jobs = await call.app.jobs(ids=newest, size=MOST_SIZE) if newest else []
    return failures_shown(found, {job.id: job for job in jobs}, call.who, call.settings)


async def ask_sql(call: Call, body: SqlBody) -> SqlResult:
    """Ask in SQL, reading only

    The tables are the same on every store; the reference of SQL has their columns. Refused where the server redacts
    jobs, since a question shows them as they are stored.
    """
    if call.settings.redact is not None:
        raise Refusal("forbidden", "this server redacts jobs, and SQL would show them as they are stored")
    return await call.app.sql(
        body.query, size=check_size(body.size), timeout=min(body.timeout, LONGEST_QUESTION)
    )


def _since(text: str) -> Any:
    given = moment(text)
    if not isinstance(given, str):
        return given
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise ConfigError(
            f"since={text!r}: write a time such as 2030-01-31T08:00:00Z, or how many seconds ago"
        ) from None


ROUTES = (
    Route("GET", "/totals", totals, right="look", tag="Store"),
    Route("GET", "/tightest", tightest, right="look", tag="Limits"),
    Route("GET", "/history", history, right="look", tag="Store"),
    Route("GET", "/failures", failures, right="look", tag="Jobs"),
    Route("POST", "/sql", ask_sql, right="keep", tag="Store", reads_only=True),
)
