"""The pages as routes: who reads, and what is shown."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from headgate import __version__
from headgate.engine.open import shown_url
from headgate.web.auth import Authenticator
from headgate.web.pages.answers import KeptFiles, assets, html, key_paths
from headgate.web.pages.failed import failed
from headgate.web.pages.find import find
from headgate.web.pages.job import job
from headgate.web.pages.jobs import jobs
from headgate.web.pages.limits import key, limits
from headgate.web.pages.login import Login
from headgate.web.pages.overview import overview
from headgate.web.pages.readings import Readings
from headgate.web.pages.rendering import STATIC, render
from headgate.web.pages.store import queues, schedules, sql, workers
from headgate.web.pages.view import Context, View
from headgate.web.problems import Problem, Refusal, problem_of
from headgate.web.roles import Identity
from headgate.web.server import Server
from headgate.web.sessions import COOKIE

log = logging.getLogger("headgate.web")

NAVIGATION = (
    ("Overview", "/", "o"),
    ("Limits", "/limits", "l"),
    ("Jobs", "/jobs", "j"),
    ("Failed", "/failed", "f"),
    ("Queues", "/queues", "q"),
    ("Schedules", "/schedules", "s"),
    ("Workers", "/workers", "w"),
    ("SQL", "/sql", "d"),
)
"""Name, path, and the key that opens it after g."""
UNDER = {"/key": "/limits"}
"""Pages without an entry of their own, and the entry that they belong to."""
PART = "x-headgate-part"
LOOK = Callable[[View], Awaitable[Context]]


class Site:
    """All pages of one server."""

    def __init__(self, server: Server, authenticator: Authenticator) -> None:
        self._server = server
        self._authenticator = authenticator
        self._readings = Readings(server.app)
        server.changed = self._readings.forget

    def routes(self) -> list[BaseRoute]:
        """What stands beside the API."""
        pages: tuple[tuple[str, str, str, LOOK, str], ...] = (
            ("/", "overview", "Overview", overview, "/events"),
            ("/limits", "limits", "Limits", limits, "/events"),
            ("/key", "key", "", key, "/events"),
            ("/jobs", "jobs", "Jobs", jobs, "/events"),
            ("/jobs/{id:path}", "job", "", job, ""),
            ("/failed", "failed", "Failed", failed, "/events"),
            ("/queues", "queues", "Queues", queues, "/events"),
            ("/schedules", "schedules", "Schedules", schedules, "/events"),
            ("/workers", "workers", "Workers", workers, "/events"),
            ("/sql", "sql", "SQL", sql, ""),
        )
        login = Login(self._server, self._authenticator)
        return [
            *(
                Route(path, self._page(template, title, look, events))
                for path, template, title, look, events in pages
            ),
            Route("/find", self._find),
            Route("/login", login.login, methods=["GET", "POST"]),
            Route("/logout", login.logout, methods=["POST"]),
            Mount("/static", KeptFiles(directory=str(STATIC))),
        ]

    def _page(
        self, template: str, title: str, look: LOOK, events: str
    ) -> Callable[[Request], Awaitable[Response]]:
        async def page(request: Request) -> Response:
            try:
                who = await self._authenticator.identify(request)
            except Refusal as refusal:
                return self._strange(request, refusal)
            common = self._common(request, who) | {"title": title, "events": events}
            try:
                context = common | await self._shared() | await look(self._view(request, who))
            except Exception as error:
                return self._problem(request, error, common)
            part = PART in request.headers
            return html(render(f"{template}{'_part' if part else ''}.html", context))

        return page

    def _view(self, request: Request, who: Identity) -> View:
        return View(self._server.app, who, request, self._server.settings, self._readings)

    async def _shared(self) -> Context:
        """What every page shows of the store: numbers beside its entries, and the store's clock."""
        totals = await self._readings.totals()
        return {
            "counts": {"Failed": totals.failed, "Workers": len(await self._readings.workers())},
            "partial": {"Failed": "failed" in totals.partial},
            "now": await self._readings.now(),
        }

    def _common(self, request: Request, who: Identity) -> Context:
        root = request.scope.get("root_path", "").rstrip("/")
        cookie = request.cookies.get(COOKIE, "")
        path = request.url.path.removeprefix(root) or "/"
        query = f"?{request.url.query}" if request.url.query else ""
        top = f"/{path.split('/')[1]}"
        return {
            "root": root,
            "here": UNDER.get(top, top),
            "url": f"{root}{path}{query}",
            "pages": [page for page in NAVIGATION if page[1] != "/sql" or who.may("keep")],
            "who": who,
            "csrf": self._authenticator.sessions.csrf(cookie) if cookie else "",
            "can_log_out": bool(cookie) and self._authenticator.by_token,
            "may_steer": who.may("steer") and not self._server.settings.read_only,
            "read_only": self._server.settings.read_only,
            "store": shown_url(self._server.app.url),
            "version": __version__,
            "events": "",
            "counts": {},
            "partial": {},
            "now": None,
            "asset": assets(root),
            "key_path": key_paths(root),
        }

    def _strange(self, request: Request, refusal: Refusal) -> Response:
        """A stranger is sent to the login where there is one here; elsewhere the application's own is missing."""
        root = request.scope.get("root_path", "").rstrip("/")
        if refusal.kind == "unauthenticated" and self._authenticator.by_token:
            if PART in request.headers:
                return Response(status_code=204, headers={"HX-Redirect": f"{root}/login"})
            path = request.url.path.removeprefix(root)
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{root}/login?next={quote(path + query, safe='')}", 303)
        answer = problem_of(refusal)
        assert answer is not None
        return answer

    def _problem(self, request: Request, error: Exception, common: dict[str, Any]) -> Response:
        answer = problem_of(error)
        if answer is None:
            log.error("the page %s failed", request.url.path, exc_info=error)
            detail, answer = "The server failed; its log says how.", Response(status_code=500)
        else:
            detail = msgspec.json.decode(answer.body, type=Problem).detail
        if PART in request.headers:
            return Response(
                status_code=204
            )  # the page keeps what it shows; its light says that the store is away
        page = html(render("problem.html", common | {"title": "That did not work", "detail": detail}))
        page.status_code = answer.status_code
        if after := answer.headers.get("retry-after"):
            page.headers["Retry-After"] = after
        return page

    async def _find(self, request: Request) -> Response:
        try:
            who = await self._authenticator.identify(request)
        except Refusal as refusal:
            return self._strange(request, refusal)
        try:
            target = await find(self._view(request, who))
        except Exception as error:
            return self._problem(request, error, self._common(request, who))
        return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + target, 303)
