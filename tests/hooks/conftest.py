"""What hangs on the seam is the same on every store: two of them are enough to see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory
from tests.support.waiting import until

MakeApp = Callable[..., App]


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture(params=["memory", "sqlite"])
def make_app(
    request: pytest.FixtureRequest, tmp_path: Path, headgate_app: AppFactory, clock: Clock
) -> MakeApp:
    """Makes an app on an empty store, which is audited at the end."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"

    def make(**options: Any) -> App:
        return headgate_app(App(url, clock=clock, **options), url=url, clock=clock)

    return make


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app()


async def ended(app: App, *ids: str) -> None:
    """Wait until these jobs, or all, have ended."""

    async def all_have() -> bool:
        jobs = [await app.handle(id).status() for id in ids]
        return all(state.ended for state in jobs) and not await app.jobs(state=["ready", "running"])

    await until(all_have, "the end of the jobs")
