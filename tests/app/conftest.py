"""One app per engine and one clock per test; the fixture audits the store at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from tests.support.stores import STORES, fresh_url


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture(params=["memory", *STORES])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the jobs are kept."""
    if request.param == "memory":
        yield "memory://"
        return
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def app(store_url: str, headgate_app: AppFactory, clock: Clock) -> App:
    return headgate_app(url=store_url, clock=clock)


@pytest.fixture
async def real_time(store_url: str) -> AsyncIterator[App]:
    """An app by the store's own clock; the audit finds nothing at the end."""
    async with App(store_url) as app:
        yield app
        assert (await app.audit()).ok
