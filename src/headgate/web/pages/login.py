"""Logging in with a token, and out."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.web.auth import Authenticator
from headgate.web.pages.answers import assets, html
from headgate.web.pages.rendering import render
from headgate.web.problems import TITLES, Refusal
from headgate.web.reading import received
from headgate.web.server import Server
from headgate.web.sessions import COOKIE, LASTS


class Login:
    """The two pages for it."""

    def __init__(self, server: Server, authenticator: Authenticator) -> None:
        self._server = server
        self._authenticator = authenticator

    async def login(self, request: Request) -> Response:
        """The form, and what it sends."""
        root = request.scope.get("root_path", "").rstrip("/")
        if not self._authenticator.by_token:
            return RedirectResponse(f"{root}/", 303)
        if request.method == "GET":
            return self._page(request, request.query_params.get("next", "/"), None)
        following = "/"
        try:
            given = await self._form(request)
            following = given.get("next", following)
            self._authenticator.must_be_of_this_site(request)
            cookie = self._authenticator.login(request, given.get("secret", ""))
        except Refusal as refusal:
            return self._page(request, following, refusal)
        answer = RedirectResponse(root + _own_path(following), 303)
        answer.set_cookie(
            COOKIE, cookie, max_age=LASTS, path=root or "/", httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return answer

    async def logout(self, request: Request) -> Response:
        """Ends the session, if the page's own button asks for it."""
        root = request.scope.get("root_path", "").rstrip("/")
        try:
            given = await self._form(request)
        except Refusal as refusal:
            return self._page(request, "/", refusal)
        cookie = request.cookies.get(COOKIE, "")
        answer = RedirectResponse(f"{root}/login", 303)
        if self._authenticator.sessions.csrf_fits(cookie, given.get("csrf", "")):
            answer.delete_cookie(COOKIE, path=root or "/")
        return answer

    async def _form(self, request: Request) -> dict[str, str]:
        """The fields of a form; raises Refusal if they are too many or too slow."""
        raw = await received(request, self._server.settings)
        return {name: values[0] for name, values in parse_qs(raw.decode("utf-8", "replace")).items()}

    def _page(self, request: Request, following: str, refusal: Refusal | None) -> Response:
        root = request.scope.get("root_path", "").rstrip("/")
        context: dict[str, Any] = {
            "root": root,
            "next": following,
            "error": refusal and refusal.detail,
            "asset": assets(root),
            "key_path": None,
            "may_steer": False,
        }
        answer = html(render("login.html", context), TITLES[refusal.kind][0] if refusal else 200)
        answer.headers.update(refusal.headers if refusal else {})
        return answer


def _own_path(given: str) -> str:
    """A path of this site: what leads elsewhere leads to the overview."""
    return given if given.startswith("/") and not given.startswith(("//", "/\\")) else "/"
