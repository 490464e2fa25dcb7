"""Every worker test runs on the memory engine; the worker knows the contract only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headgate.engine.audit import audit
from headgate.engine.memory import MemoryEngine
from tests.worker.stand_in import FailingEngine


@pytest.fixture
async def engine() -> AsyncIterator[MemoryEngine]:
    """An open, empty engine; audited at the end."""
    engine = MemoryEngine()
    await engine.open()
    yield engine
    assert audit(await engine.snapshot()) == []
    await engine.close()


@pytest.fixture
async def failing() -> AsyncIterator[FailingEngine]:
    """An open, empty engine whose line can be cut."""
    engine = FailingEngine()
    await engine.open()
    yield engine
    assert audit(await engine.snapshot()) == []
    await engine.close()
