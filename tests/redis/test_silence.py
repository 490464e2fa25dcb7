"""Connections that fall silent: no verb waits longer than its deadline, and what is silent is dropped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from headgate.engine.contract import Settings, Worker
from headgate.engine.deadline import within
from headgate.engine.redis import RedisEngine, watching
from headgate.engine.redis.url import parse
from headgate.errors import EngineUnavailable
from headgate.job import JobState, NewJob
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.proxy import Proxy
from tests.support.waiting import until


@pytest.fixture
def proxy(start_server: StartServer) -> Iterator[Proxy]:
    """Before a server."""
    server = start_server()
    with Proxy(server.port) as proxy:
        yield proxy
        proxy.forward()


async def test_a_verb_on_a_silent_connection_ends_in_time_and_the_next_one_has_a_new_connection(
    proxy: Proxy, open_engine: OpenEngine
) -> None:
    engine = await open_engine(f"redis://127.0.0.1:{proxy.port}", Settings(timeout=300_000))
    await engine.register(Worker("w", frozenset({"t"})))
    proxy.silence()
    begun = time.monotonic()
    for verb in (engine.exchange("w", [], 1), engine.heartbeat("w"), engine.sweep(), engine.states(["j"])):
        with pytest.raises(EngineUnavailable):
            await verb
    assert time.monotonic() - begun < 4 * 0.3 + 5
    proxy.reset()
    proxy.forward()
    await engine.enqueue([NewJob("j", "t")])
    assert [attempt.job for attempt in (await engine.exchange("w", [], 1)).attempts] == ["j"]


async def test_it_is_said_that_nothing_is_known_of_the_effect(proxy: Proxy, open_engine: OpenEngine) -> None:
    engine = await open_engine(f"redis://127.0.0.1:{proxy.port}", Settings(timeout=200_000))
    await engine.enqueue([NewJob("first", "t")])  # so that a server without functions knows the script
    proxy.silence()
    with pytest.raises(EngineUnavailable, match="not known whether what was asked took effect"):
        await engine.enqueue([NewJob("j", "t")])
    proxy.forward()  # what was held back arrives after all

    async def stored() -> bool:
        return await engine.states(["j"]) == [JobState.READY]

    await until(stored, "the job that was held back")


async def test_a_shorter_deadline_around_a_verb_counts(proxy: Proxy, open_engine: OpenEngine) -> None:
    engine = await open_engine(f"redis://127.0.0.1:{proxy.port}")
    await engine.states(["j"])
    proxy.silence()
    async with asyncio.timeout(5):
        with within(0.2), pytest.raises(EngineUnavailable):
            await engine.states(["j"])
    proxy.forward()


async def test_a_store_that_is_silent_from_the_start_cannot_be_opened_and_callers_fail_together(
    proxy: Proxy,
) -> None:
    url = f"redis://127.0.0.1:{proxy.port}"
    engines = [RedisEngine(parse(url, url), Settings(timeout=500_000)) for _ in range(4)]
    proxy.silence()
    async with asyncio.timeout(3):
        outcomes = await asyncio.gather(*(engine.open() for engine in engines), return_exceptions=True)
    assert all(isinstance(outcome, EngineUnavailable) for outcome in outcomes)
    proxy.forward()


async def test_a_listener_notices_that_its_connection_is_silent(
    proxy: Proxy, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LISTEN_SECONDS", 0.2)
    engine = await open_engine(f"redis://127.0.0.1:{proxy.port}", Settings(timeout=500_000))
    woken = asyncio.Event()
    stop = engine.watch_work(woken.set)
    await asyncio.wait_for(woken.wait(), 5)
    woken.clear()
    proxy.silence()
    await asyncio.sleep(0.8)  # a ping, and no answer to it
    proxy.reset()
    proxy.forward()
    await asyncio.wait_for(woken.wait(), 5)  # it has connected again
    stop()
