"""How pages and their files are sent: the headers that keep a page to itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from headgate.web.pages.rendering import asset_version

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


class KeptFiles(StaticFiles):
    """Files whose address changes with their content."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


def html(text: str, status: int = 200) -> HTMLResponse:
    """A page."""
    return HTMLResponse(text, status, headers=HEADERS)


def assets(root: str) -> Callable[[str], str]:
    """The address of a static file."""
    return lambda name: f"{root}/static/{name}?v={asset_version(name)}"


def key_paths(root: str) -> Callable[..., str]:
    """The address of a key's page."""

    def path(key: str, tenant: str | None = None) -> str:
        about = f"&tenant={quote(tenant, safe='')}" if tenant else ""
        return f"{root}/key?key={quote(key, safe='')}{about}"

    return path
