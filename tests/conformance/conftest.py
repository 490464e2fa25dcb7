"""One fixture decides which engines the suite runs on; every test ends with the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from headgate.engine.contract import Engine, Settings
from tests.support.servers import SERVERS, Server
from tests.support.world import World


@pytest.fixture(params=sorted(SERVERS))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Which engine."""
    return request.param


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> Settings:
    """What the engine is opened with: `@pytest.mark.parametrize("settings", [...])` changes it."""
    return getattr(request, "param", Settings())


@pytest.fixture
async def server(engine_name: str, settings: Settings, tmp_path: Path) -> AsyncIterator[Server]:
    """An empty store."""
    server = SERVERS[engine_name](tmp_path, settings)
    yield server
    await server.close()


@pytest.fixture
async def engine(server: Server) -> Engine:
    """An open engine on the store."""
    return await server.engine()


@pytest.fixture
def another_engine(server: Server) -> Callable[[], Awaitable[Engine]]:
    """Opens further engines on the same store: other connections, as other processes would have."""
    return server.engine


@pytest.fixture
async def world(engine: Engine) -> AsyncIterator[World]:
    """The engine in a world whose clock the test moves."""
    world = World(engine)
    yield world
    await world.check_now()
