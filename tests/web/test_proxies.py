"""Mounted below a path, and behind a proxy."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from headgate import App
from headgate.web import asgi
from tests.support.web_server import web_server
from tests.web.conftest import TOKENS

ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)
SECRET = "the-secret-of-an-operator"
PAGES = ["/", "/limits", "/jobs", "/queues", "/workers"]


def addresses(text: str) -> list[str]:
    """Whatever a page leads to, asks for or loads."""
    return re.findall(r'(?:href|src|action|hx-get|data-root)="([^"]*)"', text)


@ON_MEMORY
async def test_every_address_of_a_mounted_page_is_below_its_path(app: App):
    outer = Starlette(routes=[Mount("/ops/queue", asgi(app))])
    transport = httpx.ASGITransport(outer, client=("127.0.0.1", 5000))
    job = await app.tasks["sync"].enqueue(1)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for page in [*PAGES, f"/jobs/{job.id}", "/key?key=sync.customer=1"]:
            answer = await client.get(f"/ops/queue{page}")
            assert answer.status_code == 200, page
            wrong = [
                one for one in addresses(answer.text) if one != "#main" and not one.startswith("/ops/queue")
            ]
            assert wrong == [], page
        answer = await client.get("/ops/queue/")
        for source in re.findall(r'(?:src|href)="(/ops/queue/static/[^"]+)"', answer.text):
            assert (await client.get(source)).status_code == 200
        found = await client.get("/ops/queue/find", params={"q": job.id})
        assert found.headers["location"] == f"/ops/queue/jobs/{job.id}"
        described = (await client.get("/ops/queue/api/v1/openapi.json")).json()
        assert described["servers"] == [{"url": "/ops/queue/api/v1"}]
        made = await client.post("/ops/queue/api/v1/jobs", json={"task": "sync", "args": {"customer": 2}})
        assert made.headers["location"].startswith("/ops/queue/api/v1/jobs/")


@ON_MEMORY
async def test_a_session_of_a_mounted_page_is_sent_there_only(app: App):
    outer = Starlette(routes=[Mount("/queue", asgi(app, auth=TOKENS))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="https://test") as client:
        away = await client.get("/queue/jobs")
        assert away.headers["location"] == "/queue/login?next=%2Fjobs"
        answer = await client.post("/queue/login", data={"secret": "the-secret-of-read", "next": "/jobs"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/queue/jobs")
        assert "Path=/queue" in answer.headers["set-cookie"]
        assert (await client.get("/queue/jobs")).status_code == 200


@pytest.fixture(params=["trusted", "not trusted"])
def behind(request, tmp_path: Path) -> Iterator[tuple[bool, httpx.Client]]:
    """A server as a proxy reaches it: by its own path, with what the proxy says of the caller."""
    url, trusted = f"sqlite:///{tmp_path}/jobs.db", request.param == "trusted"
    App(url).migrate_sync()
    options = ["--root-path", "/queue", *(["--trust-proxy"] if trusted else [])]
    with (
        web_server(tmp_path, url, *options, tokens=f"ada:operate:{SECRET}") as server,
        httpx.Client(base_url=server.origin, timeout=30) as client,
    ):
        yield trusted, client


@pytest.mark.slow(3)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_behind_a_proxy_addresses_cookies_and_refusals_are_the_callers(behind: tuple[bool, httpx.Client]):
    trusted, client = behind
    said = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    assert client.get("/jobs", headers=said).headers["location"] == "/queue/login?next=%2Fjobs"
    answer = client.post("/login", data={"secret": SECRET, "next": "/"}, headers=said)
    assert answer.headers["location"] == "/queue/"
    cookie = answer.headers["set-cookie"]
    assert ("Path=/queue" in cookie, "Secure" in cookie) == (True, trusted)
    page = client.get("/", headers={**said, "Cookie": cookie.partition(";")[0]})
    assert [one for one in addresses(page.text) if one != "#main" and not one.startswith("/queue")] == []
    for _ in range(10):
        assert client.post("/login", data={"secret": "wrong" * 5}, headers=said).status_code == 401
    closed = client.post("/login", data={"secret": SECRET}, headers=said)
    assert (closed.status_code, "too many wrong secrets" in closed.text) == (429, True)
    assert int(closed.headers["retry-after"]) > 0
    other = client.post("/login", data={"secret": SECRET}, headers={**said, "X-Forwarded-For": "203.0.113.8"})
    assert other.status_code == (303 if trusted else 429), "who is counted is who is believed"
