"""What only PostgreSQL does: locks, callers' transactions, notifications, servers in trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headgate.engine.contract import Settings
from headgate.engine.postgres import PostgresEngine
from tests.support import postgres_server
from tests.support.postgres_server import PostgresProcess

AVAILABLE = postgres_server.available()
OpenEngine = Callable[[], Awaitable[PostgresEngine]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.skipif(not AVAILABLE, reason="no PostgreSQL here"))


@pytest.fixture
def process() -> PostgresProcess:
    """The session's server."""
    return postgres_server.shared_server()


@pytest.fixture
def schema(process: PostgresProcess) -> Iterator[str]:
    """An empty schema."""
    name = postgres_server.borrow_schema()
    yield name
    postgres_server.give_back_schema(name)


@pytest.fixture
async def open_engine(process: PostgresProcess, schema: str) -> AsyncIterator[OpenEngine]:
    """Opens engines on the schema, as it is used in production: newcomers are met by claims."""
    opened: list[PostgresEngine] = []

    async def one() -> PostgresEngine:
        engine = PostgresEngine(process.dsn, Settings(), schema=schema)
        await engine.open()
        opened.append(engine)
        return engine

    yield one
    for engine in opened:
        await engine.close()


@pytest.fixture
async def engine(open_engine: OpenEngine) -> PostgresEngine:
    """One engine."""
    return await open_engine()
