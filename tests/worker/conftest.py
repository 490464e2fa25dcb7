"""Worker tests run on the memory engine and on PostgreSQL: the worker knows the contract only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.engine.contract import Engine, Settings
from headgate.engine.rules.audit import audit
from tests.support.servers import SERVERS
from tests.worker.stand_in import FailingEngine

STORES = [name for name in ("memory", "postgres") if name in SERVERS]


@pytest.fixture(params=STORES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    """An open, empty engine; audited at the end."""
    server = SERVERS[request.param](tmp_path, Settings())
    engine = await server.engine()
    yield engine
    assert audit(await engine.snapshot()) == []
    await server.close()


@pytest.fixture
async def failing() -> AsyncIterator[FailingEngine]:
    """An open, empty engine whose line can be cut."""
    engine = FailingEngine()
    await engine.open()
    yield engine
    assert audit(await engine.snapshot()) == []
    await engine.close()
