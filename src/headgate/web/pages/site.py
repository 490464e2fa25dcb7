"""The pages as routes: who reads, what is shown, and the headers that keep a page to itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from headgate import __version__
from headgate.engine.open import shown_url
from headgate.web.auth import Authenticator
from headgate.web.pages import views
from headgate.web.pages.rendering import STATIC, asset_version, render
from headgate.web.pages.views import View
from headgate.web.problems import TITLES, Problem, Refusal, problem_of
from headgate.web.reading import received
from headgate.web.roles import Identity
from headgate.web.server import Server
from headgate.web.sessions import COOKIE, LASTS

log = logging.getLogger("headgate.web")

NAVIGATION = (
    ("Overview", "/"),
    ("Limits", "/limits"),
    ("Jobs", "/jobs"),
    ("Failed", "/jobs?state=failed"),
    ("Queues", "/queues"),
    ("Workers", "/workers"),
)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
PART = "x-headgate-part"
LOOK = Callable[[View], Awaitable[dict[str, Any]]]


class Site:
    """All pages of one server."""

    def __init__(self, server: Server, authenticator: Authenticator) -> None:
        self._server = server
        self._authenticator = authenticator

    def routes(self) -> list[BaseRoute]:
        """What stands beside the API."""
        pages: tuple[tuple[str, str, str, LOOK, str], ...] = (
            ("/", "overview", "Overview", views.overview, "/events"),
            ("/limits", "limits", "Limits", views.limits, "/events"),
            ("/key", "key", "", views.key, "/events"),
            ("/jobs", "jobs", "Jobs", views.jobs, "/events"),
            ("/jobs/{id:path}", "job", "", views.job, ""),
            ("/queues", "queues", "Queues", views.queues, "/events"),
            ("/workers", "workers", "Workers", views.workers, "/events"),
        )
        return [
            *(
                Route(path, self._page(template, title, look, events))
                for path, template, title, look, events in pages
            ),
            Route("/find", self._find),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Mount("/static", _Kept(directory=str(STATIC))),
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
                view = View(self._server.app, who, request, self._server.settings)
                context = common | await look(view)
            except Exception as error:
                return self._problem(request, error, common)
            part = PART in request.headers
            return _html(render(f"{template}{'_part' if part else ''}.html", context))

        return page

    def _common(self, request: Request, who: Identity) -> dict[str, Any]:
        root = request.scope.get("root_path", "").rstrip("/")
        cookie = request.cookies.get(COOKIE, "")
        path = request.url.path.removeprefix(root) or "/"
        here = f"{path}?{request.url.query}" if request.url.query == "state=failed" else path
        query = f"?{request.url.query}" if request.url.query else ""
        return {
            "root": root,
            "here": here,
            "url": f"{root}{path}{query}",
            "pages": NAVIGATION,
            "who": who,
            "csrf": self._authenticator.sessions.csrf(cookie) if cookie else "",
            "can_log_out": bool(cookie) and self._authenticator.by_token,
            "may_steer": who.may("steer") and not self._server.settings.read_only,
            "read_only": self._server.settings.read_only,
            "store": shown_url(self._server.app.url),
            "version": __version__,
            "events": "",
            "asset": _assets(root),
            "key_path": _key_paths(root),
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
        page = _html(render("problem.html", common | {"title": "That did not work", "detail": detail}))
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
            view = View(self._server.app, who, request, self._server.settings)
            target = await views.find(view)
        except Exception as error:
            return self._problem(request, error, self._common(request, who))
        return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + target, 303)

    # ── logging in ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _login(self, request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        if not self._authenticator.by_token:
            return RedirectResponse(f"{root}/", 303)
        if request.method == "GET":
            return self._login_page(request, request.query_params.get("next", "/"), None)
        following = "/"
        try:
            given = await self._form(request)
            following = given.get("next", following)
            self._authenticator.must_be_of_this_site(request)
            cookie = self._authenticator.login(request, given.get("secret", ""))
        except Refusal as refusal:
            return self._login_page(request, following, refusal)
        answer = RedirectResponse(root + _own_path(following), 303)
        answer.set_cookie(
            COOKIE, cookie, max_age=LASTS, path=root or "/", httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return answer

    async def _form(self, request: Request) -> dict[str, str]:
        """The fields of a form; raises Refusal if they are too many or too slow."""
        raw = await received(request, self._server.settings)
        return {name: values[0] for name, values in parse_qs(raw.decode("utf-8", "replace")).items()}

    def _login_page(self, request: Request, following: str, refusal: Refusal | None) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        context: dict[str, Any] = {
            "root": root,
            "next": following,
            "error": refusal and refusal.detail,
            "asset": _assets(root),
            "key_path": None,
            "may_steer": False,
        }
        answer = _html(render("login.html", context), TITLES[refusal.kind][0] if refusal else 200)
        answer.headers.update(refusal.headers if refusal else {})
        return answer

    async def _logout(self, request: Request) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        try:
            given = await self._form(request)
        except Refusal as refusal:
            return self._login_page(request, "/", refusal)
        cookie = request.cookies.get(COOKIE, "")
        answer = RedirectResponse(f"{root}/login", 303)
        if self._authenticator.sessions.csrf_fits(cookie, given.get("csrf", "")):
            answer.delete_cookie(COOKIE, path=root or "/")
        return answer


class _Kept(StaticFiles):
    """Files whose address changes with their content."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


def _html(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status, headers=HEADERS)


def _assets(root: str) -> Callable[[str], str]:
    """The address of a static file."""
    return lambda name: f"{root}/static/{name}?v={asset_version(name)}"


def _key_paths(root: str) -> Callable[..., str]:
    """The address of a key's page."""

    def path(key: str, tenant: str | None = None) -> str:
        about = f"&tenant={quote(tenant, safe='')}" if tenant else ""
        return f"{root}/key?key={quote(key, safe='')}{about}"

    return path


def _own_path(given: str) -> str:
    """A path of this site: what leads elsewhere leads to the overview."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) else "/"
