"""Errors as problem documents (RFC 9457): Headgate's own message, and a type that programs can tell apart.

`type` is a relative reference, `/problems/NAME` below the API: the page that lists the names is part of the docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from headgate.errors import (
    BacklogFull,
    ConfigError,
    EngineError,
    EngineUnavailable,
    HeadgateError,
    JobExists,
    JobNotFound,
    LeaseLost,
    LimitNotFound,
    PayloadError,
    SchemaMismatch,
    StaleMessage,
    WrongState,
)

RETRY_AFTER = 2
"""Seconds after which a store that cannot be reached may be tried again."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an error. `detail` is written for people; `job` and `state` are there where they say more."""

    type: str
    title: str
    status: int
    detail: str
    job: str | None = None
    state: str | None = None


TITLES: dict[str, tuple[int, str]] = {
    "invalid": (422, "The request is not valid"),
    "not-found": (404, "There is no such thing"),
    "wrong-state": (409, "The job is not in a state for that"),
    "exists": (409, "There is such a job already"),
    "backlog-full": (429, "As many jobs wait as may"),
    "lease-lost": (409, "The worker's lease has lapsed"),
    "stale-message": (409, "A later message of this worker has taken effect"),
    "unavailable": (503, "The store cannot be reached"),
    "store": (500, "The store refused"),
    "unauthenticated": (401, "Who is asking?"),
    "forbidden": (403, "The role does not allow this"),
    "too-large": (413, "The request is too large"),
    "too-slow": (408, "The request did not arrive in time"),
    "too-many": (429, "Too many requests"),
    "method": (405, "Not with this method"),
    "media-type": (415, "JSON is needed"),
    "read-only": (403, "This server changes nothing"),
    "defect": (500, "A defect of the server"),
}

_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (JobNotFound, "not-found"),
    (LimitNotFound, "not-found"),
    (JobExists, "exists"),
    (BacklogFull, "backlog-full"),
    (WrongState, "wrong-state"),
    (LeaseLost, "lease-lost"),
    (StaleMessage, "stale-message"),
    (ConfigError, "invalid"),
    (PayloadError, "invalid"),
    (msgspec.ValidationError, "invalid"),
    (msgspec.DecodeError, "invalid"),
    (EngineUnavailable, "unavailable"),
    (SchemaMismatch, "store"),
    (EngineError, "store"),
)


class Refusal(Exception):
    """A request that is refused before or beside the app: raised anywhere below a handler."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})


def problem_of(error: Exception) -> Response | None:
    """The answer to an error that is meant for the caller; None for a defect."""
    if isinstance(error, Refusal):
        return respond(problem(error.kind, error.detail), error.headers)
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), None)
    if kind is None:
        return respond(problem("invalid", str(error))) if isinstance(error, HeadgateError) else None
    more: dict[str, Any] = {}
    if isinstance(error, JobExists) and error.job_id:
        more["job"] = error.job_id
    if isinstance(error, WrongState) and error.state:
        more["state"] = error.state
    headers = {"Retry-After": str(RETRY_AFTER)} if kind == "unavailable" else {}
    return respond(problem(kind, str(error), **more), headers)


def problem(kind: str, detail: str, **more: Any) -> Problem:
    """A problem of a known kind."""
    status, title = TITLES[kind]
    return Problem(type=f"/problems/{kind}", title=title, status=status, detail=detail, **more)


def respond(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as an answer."""
    return Response(
        msgspec.json.encode(problem),
        problem.status,
        {**(headers or {}), "Cache-Control": "no-store"},
        "application/problem+json",
    )
