"""One app per engine and one clock per test; the fixture audits the store at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, headgate_app: AppFactory, clock: Clock, tmp_path: Path) -> App:
    file = f"sqlite:///{tmp_path}/jobs.db"
    return headgate_app(url=file if request.param == "sqlite" else "memory://", clock=clock)
