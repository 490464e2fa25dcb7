"""The ASGI application: mount it in FastAPI, Starlette, Litestar or Django, or serve it with `headgate web`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.routing import Route as StarletteRoute

from headgate.app.app import App
from headgate.web.api import enqueueing, events, jobs, overview, schedules, shares, store, work
from headgate.web.auth import Auth, Authenticator
from headgate.web.openapi import document
from headgate.web.pages.reference import reference
from headgate.web.pages.site import Site
from headgate.web.problems import problem, respond
from headgate.web.route import Route
from headgate.web.server import Server, of_any_text
from headgate.web.settings import Redact, WebSettings

ROUTES: tuple[Route, ...] = (
    *enqueueing.ROUTES, *jobs.ROUTES, *events.ROUTES, *jobs.ONE_JOB, *overview.ROUTES, *store.ROUTES,
    *schedules.ROUTES, *shares.ROUTES, *work.ROUTES,
)  # fmt: skip
API = "/api/v1"


def asgi(
    app: App,
    *,
    auth: Auth = None,
    read_only: bool = False,
    hide_payloads: bool = False,
    redact: Redact | None = None,
) -> Starlette:
    """The dashboard and the API of an app as an ASGI application.

    `auth` are `Tokens`, or a function from a request to a role, to `(name, role)`, or to None for a stranger; without
    it only this machine may ask. `read_only` refuses every change, `hide_payloads` hides arguments and results from the
    role read, and `redact` is shown every job before it is sent, with who looks. The app is opened on first use; where
    the application is served alone, it is closed at its end.
    """
    settings = WebSettings(read_only=read_only, hide_payloads=hide_payloads, redact=redact)
    authenticator = Authenticator(auth)
    server = Server(app, authenticator, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with app:
            yield

    api = Starlette(
        routes=of_any_text(
            StarletteRoute("/openapi.json", _openapi),
            StarletteRoute("/", _reference),
            *server.routes(ROUTES),
        ),
        exception_handlers={HTTPException: _http_error},
    )
    site = Site(server, authenticator)
    return Starlette(
        routes=of_any_text(Mount(API, api), *site.routes()),
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error},
    )


async def _openapi(request: Request) -> Response:
    """The document is no secret: it says nothing about the store."""
    return Response(msgspec.json.encode(_document(request)), media_type="application/json")


async def _reference(request: Request) -> Response:
    """The same for people."""
    return reference(_document(request), request.scope.get("root_path", API))


def _document(request: Request) -> dict[str, Any]:
    return {**document(ROUTES), "servers": [{"url": request.scope.get("root_path", API)}]}


async def _http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: a path that nothing stands at."""
    return respond(problem("not-found", f"nothing stands at {request.url.path}"))
