"""Servers of one test's own, with whatever options it needs, and engines on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from headgate.engine.contract import Settings
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.url import parse
from headgate.engine.rules.audit import audit
from tests.support.redis_leaks import check_all
from tests.support.redis_servers import RedisProcess, binary

KINDS = [kind for kind in ("valkey", "redis6", "redis7") if binary(kind)]

StartServer = Callable[..., RedisProcess]
OpenEngine = Callable[..., Awaitable[RedisEngine]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which server."""
    return request.param


@pytest.fixture
def start_server(kind: str) -> Iterator[StartServer]:
    """Starts servers; they end with the test. What is left on them must be in the catalogue, unless the test says that
    it has put something else there (`spoiled`)."""
    started: list[RedisProcess] = []
    sound: list[RedisProcess] = []

    def start(*options: str, spoiled: bool = False, **given: Any) -> RedisProcess:
        program = binary(kind)
        assert program is not None
        started.append(RedisProcess(program, *options, **given))
        if not spoiled:
            sound.append(started[-1])
        return started[-1]

    yield start
    try:
        for server in sound:
            check_all(server)
    finally:
        for server in started:
            server.stop()


@pytest.fixture
async def open_engine() -> AsyncIterator[OpenEngine]:
    """Opens engines; each is audited and closed at the end, if its server is still there."""
    opened: list[RedisEngine] = []

    async def open(url: str, settings: Settings | None = None, *, check: bool = True) -> RedisEngine:
        engine = RedisEngine(parse(url, url), settings or Settings(busy_timeout=5_000_000))
        await engine.open()
        if check:
            opened.append(engine)
        return engine

    yield open
    for engine in opened:
        assert audit(await engine.snapshot()) == []
        await engine.close()
