"""One app on memory:// and one clock per test; the fixture audits the store at the end."""

from __future__ import annotations

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.testing.plugin import AppFactory


@pytest.fixture
def clock(headgate_clock: Clock) -> Clock:
    return headgate_clock


@pytest.fixture
def app(headgate_app: AppFactory, clock: Clock) -> App:
    return headgate_app(clock=clock)
