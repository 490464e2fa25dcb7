"""The stores on which flow control is tested from the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from tests.support.stores import STORES, fresh_url

FLOW_STORES = ("memory", *STORES)


@pytest.fixture(params=FLOW_STORES, name="app")
def memory_app(
    request: pytest.FixtureRequest, tmp_path: Path, headgate_app: AppFactory, clock: Clock
) -> Iterator[App]:
    """An app on each of them."""
    if request.param == "memory":
        yield headgate_app(url="memory://", clock=clock)
        return
    with fresh_url(request.param, tmp_path) as url:
        yield headgate_app(url=url, clock=clock)
