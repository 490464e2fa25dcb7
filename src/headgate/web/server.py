"""From route records to a Starlette application: who is asking, what is asked, the answer, the log line."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from headgate.app.app import App
from headgate.web.auth import SAFE, Authenticator
from headgate.web.problems import Refusal, problem, problem_of, respond
from headgate.web.reading import read_body, read_query
from headgate.web.roles import Identity, roles_with
from headgate.web.route import EVENT_STREAM, Body, Call, Created, Route
from headgate.web.settings import WebSettings
from headgate.web.streams import Streams

log = logging.getLogger("headgate.web")


class Server:
    """What all operations share."""

    def __init__(self, app: App, authenticator: Authenticator, settings: WebSettings) -> None:
        self.app = app
        self.authenticator = authenticator
        self.settings = settings
        self.streams = Streams(app, settings.most_streams)
        self.changed: Callable[[], None] = _nothing
        """Called when a request has changed something, so that what is kept of the store is read again."""

    def routes(self, routes: Sequence[Route]) -> list[StarletteRoute]:
        """The routes of a Starlette application; a path that is there with another method is answered with 405."""
        paths = dict.fromkeys(route.path for route in routes)
        return [
            StarletteRoute(path, Path(self, {r.method: r for r in routes if r.path == path}))
            for path in paths
        ]

    async def answer(self, request: Request, route: Route) -> Response:
        """One request, from who is asking to the answer."""
        try:
            who = await self.authenticator.identify(request)
            self._must_be_allowed(who, route)
            root = request.scope.get("root_path", "")
            call = Call(self.app, who, request, root, self.settings, self.streams)
            given = await self._given(request, route)
            if request.method == "HEAD" and route.media_type == EVENT_STREAM:
                return Response(media_type=EVENT_STREAM)  # the stream itself would never end
            result = await route.handler(call, **given)
            if request.method not in SAFE:
                _log_change(request, route, who, given.get("body"))
                self.changed()
            return self._respond(route, result)
        except Exception as error:
            if (response := problem_of(error)) is not None:
                return response
            log.exception("%s %s failed", request.method, request.url.path)
            return respond(problem("defect", "the server failed; its log says how"))

    def _must_be_allowed(self, who: Identity, route: Route) -> None:
        if not who.may(route.right):
            allowed = " or ".join(roles_with(route.right))
            raise Refusal("forbidden", f"{who.name} has the role {who.role}; this needs {allowed}")
        if self.settings.read_only and not route.reads_only:
            raise Refusal("read-only", "this server was started to look only (--read-only)")

    async def _given(self, request: Request, route: Route) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if route.query is not None:
            given["query"] = read_query(route.query, request.query_params)
        elif request.query_params:
            raise Refusal("invalid", f"nothing is known here about {', '.join(request.query_params)}")
        if route.body is not None:
            given["body"] = await read_body(route.body, request, self.settings)
        return given

    def _respond(self, route: Route, result: Any) -> Response:
        if isinstance(result, Response):
            return result
        status, headers = route.status, {"Cache-Control": "no-store"}
        if isinstance(result, Created):
            created: Created[Any] = result  # pyright: ignore[reportUnknownVariableType]
            status, headers, result = created.status, {**headers, **created.headers}, created.body
        body = b"" if status == 204 else msgspec.json.encode(result)
        return Response(body, status, headers, None if status == 204 else route.media_type)


def of_any_text(*routes: BaseRoute) -> list[BaseRoute]:
    """Routes whose parts may be any text: keys and ids may hold line breaks, where a path of Starlette would end."""
    for route in routes:
        if isinstance(route, StarletteRoute | Mount):
            route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
    return list(routes)


def _nothing() -> None:
    pass


def _log_change(request: Request, route: Route, who: Identity, body: Body | None) -> None:
    """Who did what. What callers have sent cannot break the line."""
    query = f"?{request.url.query}" if request.url.query else ""
    said = f" {body.noted()}" if body is not None and body.noted() else ""
    line = f"{who.name} ({who.role}): {request.method} {request.scope['path']}{query}{said}"
    log.log(logging.DEBUG if route.quiet else logging.INFO, "%s", line.encode("unicode_escape").decode())


class Path:
    """What stands at one path: an ASGI application, so that another method is answered with a problem, too."""

    def __init__(self, server: Server, by_method: Mapping[str, Route]) -> None:
        self._server = server
        self._by_method = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        route = self._by_method.get("GET" if request.method == "HEAD" else request.method)
        response = self._wrong_method(request) if route is None else await self._server.answer(request, route)
        await response(scope, receive, send)

    def _wrong_method(self, request: Request) -> Response:
        allowed = ", ".join(sorted(self._by_method))
        detail = f"{request.method} is not possible here; {allowed} is"
        return respond(problem("method", detail), {"Allow": allowed})
