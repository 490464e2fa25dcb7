"""Sentinels: the master they name is used; when it dies, its replica is, and one line says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from headgate import App, ConfigError, EngineUnavailable
from headgate.engine.contract import Settings
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.url import parse
from headgate.job import JobState, NewJob
from tests.redis.conftest import OpenEngine
from tests.redis.sentinels import PASSWORD, Sentinels
from tests.support.redis_servers import binary

pytestmark = pytest.mark.timeout(90)

OTHER_PASSWORD = "of/the@sentinels"


@pytest.fixture
def program(kind: str) -> str:
    found = binary(kind)
    assert found is not None
    return found


@pytest.fixture
def sentinels(program: str) -> Iterator[Sentinels]:
    sentinels = Sentinels(program)
    try:
        yield sentinels
        sentinels.check()
    finally:
        sentinels.stop()


@pytest.mark.slow
async def test_a_worker_goes_on_with_the_replica_of_a_dead_master(
    sentinels: Sentinels, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(sentinels.url)
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    with caplog.at_level(logging.WARNING, "headgate"):
        async with app, app.worker(concurrency=2):
            await (await note.enqueue(0)).result(timeout=10)
            sentinels.replicate()
            sentinels.master.kill()
            for number in range(1, 20):
                try:
                    handle = await note.enqueue(number)
                except EngineUnavailable:  # the one that was under way when the master died
                    continue
                await handle.result(timeout=30)
            assert (await app.audit()).ok
    assert {19, 0} <= set(ran)
    lines = [each.message for each in caplog.records if "has taken over" in each.message]
    old, new = sentinels.master.port, sentinels.replica.port
    (line,) = lines
    assert f"127.0.0.1:{new} has taken over from 127.0.0.1:{old}" in line


async def test_sentinels_may_have_a_password_of_their_own(program: str, open_engine: OpenEngine) -> None:
    sentinels = Sentinels(program, password=OTHER_PASSWORD)
    try:
        for given in ("", "?sentinel_password=guess"):
            with pytest.raises(
                EngineUnavailable, match=r"no sentinel names .*\?sentinel_password= the password"
            ) as caught:
                await open_engine(sentinels.url + given, check=False)
            assert "guess" not in str(caught.value)
        engine = await open_engine(
            f"{sentinels.url}?sentinel_password={quote(OTHER_PASSWORD, safe='')}", check=False
        )
        assert await engine.clock() > 0
        await engine.close()
    finally:
        sentinels.stop()


async def test_a_master_that_no_sentinel_knows_is_said(sentinels: Sentinels) -> None:
    url = sentinels.url.replace("/main", "/other")
    with pytest.raises(EngineUnavailable, match=r"no sentinel names the master 'other': .* does not know it"):
        await RedisEngine(parse(url, url)).open()


async def test_a_server_that_is_no_sentinel_and_a_sentinel_that_is_no_server_are_said(
    sentinels: Sentinels,
) -> None:
    for url, kind, words in (
        (
            f"redis+sentinel://:{PASSWORD}@127.0.0.1:{sentinels.master.port}/main",
            EngineUnavailable,
            "it is no sentinel",
        ),
        (f"redis://127.0.0.1:{sentinels.port}", ConfigError, r"is a sentinel; write redis\+sentinel://"),
    ):
        with pytest.raises(kind, match=words):
            await RedisEngine(parse(url, url)).open()


@pytest.mark.slow
async def test_who_opens_the_store_while_the_master_is_dead_waits_for_another(
    sentinels: Sentinels, open_engine: OpenEngine, caplog: pytest.LogCaptureFixture
) -> None:
    first = await open_engine(sentinels.url, check=False)
    await first.enqueue([NewJob("j", "t")])
    await first.close()
    sentinels.replicate()
    sentinels.master.kill()
    with caplog.at_level(logging.WARNING, "headgate"):
        engine = await open_engine(sentinels.url, Settings(busy_timeout=30_000_000))
    assert await engine.states(["j"]) == [JobState.READY]
    assert [each for each in caplog.records if "waiting 30 s at most" in each.message]
