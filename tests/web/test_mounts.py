"""The application in programs of other frameworks, on a path of theirs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from headgate import App
from headgate.web import asgi

ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


def role_of(request: Any) -> tuple[str, Any] | None:
    return ("ada", "operate") if request.headers.get("x-user") == "ada" else None


def in_fastapi(queue: Any) -> Any:
    from fastapi import FastAPI

    api = FastAPI()
    api.mount("/queue", queue)
    return api


def in_starlette(queue: Any) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/queue", queue)])


def in_litestar(queue: Any) -> Any:
    from litestar import Litestar
    from litestar import asgi as mounted

    @mounted("/queue", is_mount=True, copy_scope=True)
    async def there(scope: Any, receive: Any, send: Any) -> None:
        # Litestar ends every path in a slash; the raw one is as it was sent.
        path = unquote(scope["raw_path"].decode())
        await queue({**scope, "root_path": "/queue", "path": path}, receive, send)

    return Litestar(route_handlers=[there])


@ON_MEMORY
@pytest.mark.parametrize("mounted", [in_fastapi, in_starlette, in_litestar])
async def test_it_stands_on_a_path_of_another_application(app: App, mounted):
    transport = httpx.ASGITransport(mounted(asgi(app, auth=role_of)))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/queue") as client:
        assert (await client.get("/api/v1/queues")).status_code == 401
        client.headers["x-user"] = "ada"
        made = await client.post("/api/v1/jobs", json={"task": "sync", "args": {"customer": 1}})
        assert made.headers["location"].startswith("/queue/api/v1/jobs/")
        shown = await client.get(f"/api/v1/jobs/{made.json()['id']}")
        assert shown.json()["task"] == "sync"
        described = (await client.get("/api/v1/openapi.json")).json()
        assert described["servers"] == [{"url": "/queue/api/v1"}]
        page = await client.get("/")
        assert (page.status_code, 'href="/queue/' in page.text) == (200, True)
        assert (await client.get("/api/v1/")).status_code == 200


DJANGO = """
import asyncio, httpx
from django.conf import settings
settings.configure(DEBUG=False, SECRET_KEY="x", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
urlpatterns = []
from django.core.asgi import get_asgi_application
from starlette.applications import Starlette
from starlette.routing import Mount
from headgate import App
from headgate.web import asgi

application = Starlette(routes=[
    Mount("/queue", asgi(App("memory://"), auth=lambda request: "read")),
    Mount("/", get_asgi_application()),
])

async def ask():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://test") as client:
        for path in ("/queue/", "/queue/api/v1/queues", "/elsewhere"):
            print((await client.get(path)).status_code)

asyncio.run(ask())
"""


def test_it_stands_beside_a_django_project():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DJANGO], capture_output=True, text=True, timeout=100
    )
    assert done.stdout.split() == ["200", "200", "404"], done.stderr
