"""The API of an app on every store, asked in the process; one client per role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import httpx
import pytest

from headgate import App, ConcurrencyLimit
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from headgate.web import Tokens, asgi
from tests.support.stores import STORES, fresh_url

SECRETS = {role: f"the-secret-of-{role}" for role in ("read", "operate", "work", "admin")}
TOKENS = Tokens([f"{role}-person:{role}:{secret}" for role, secret in SECRETS.items()], "the tests")


@pytest.fixture(params=["memory", *STORES])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the jobs are kept."""
    if request.param == "memory":
        yield "memory://"
        return
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def app(store_url: str, headgate_app: AppFactory, headgate_clock: Clock) -> App:
    made = headgate_app(url=store_url, clock=headgate_clock)

    @made.task(queue="crm")
    async def sync(customer: Annotated[int, ConcurrencyLimit(1)], note: str = "") -> int:
        if note == "fail":
            raise ValueError("no such customer")
        return customer * 2

    return made


class Asked:
    """A client with one role; `await asked.get("/jobs", 200)` gives the body, and fails on another status."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.headers = httpx.Headers()

    async def __call__(self, method: str, path: str, status: int, body=None, **more):
        answer = await self.client.request(method, path, json=body, **more)
        assert answer.status_code == status, f"{answer.status_code}: {answer.text}"
        self.headers = answer.headers
        return answer.json()

    async def get(self, path: str, status: int = 200, **query):
        return await self("GET", path, status, params=query)

    async def post(self, path: str, status: int = 200, body=None, **more):
        return await self("POST", path, status, body, **more)


@pytest.fixture
def asking(app: App):
    """Makes clients: `asking("operate")`."""
    transport = httpx.ASGITransport(asgi(app, auth=TOKENS))

    def client(role: str | None = "admin") -> Asked:
        headers = {} if role is None else {"Authorization": f"Bearer {SECRETS[role]}"}
        return Asked(httpx.AsyncClient(transport=transport, base_url="http://test/api/v1", headers=headers))

    return client


@pytest.fixture
def asking_with(app: App):
    """Makes clients of a server with settings of its own: `asking_with("read", hide_payloads=True)`."""

    def client(role: str, **settings) -> Asked:
        transport = httpx.ASGITransport(asgi(app, auth=TOKENS, **settings))
        headers = {"Authorization": f"Bearer {SECRETS[role]}"}
        return Asked(httpx.AsyncClient(transport=transport, base_url="http://test/api/v1", headers=headers))

    return client


@pytest.fixture
async def asked(asking) -> AsyncIterator[Asked]:
    """A client that may do everything."""
    client = asking()
    yield client
    await client.client.aclose()
