"""Servers that hide or forbid functions are given scripts; servers that forbid both are refused, with the reason."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headgate.engine.contract import Limit, Succeeded, Worker
from headgate.engine.redis import RedisEngine
from headgate.errors import EngineError
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import KINDS, OpenEngine, StartServer

WITH_FUNCTIONS = [kind for kind in KINDS if kind != "redis6"]
ALL = ("on", ">pw", "~*", "&*", "+@all")


async def works(engine: RedisEngine) -> None:
    """One limited job after another."""
    jobs = [NewJob(f"j{number}", "t", uses=(Use(Key("A").ident),)) for number in range(2)]
    await engine.enqueue(jobs, limits=[Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    (first,) = (await engine.exchange("w", [], 5)).attempts
    (second,) = (await engine.exchange("w", [Succeeded(first.job, first.number)], 5)).attempts
    await engine.exchange("w", [Succeeded(second.job, second.number)], 0)
    assert await engine.states(["j0", "j1"]) == [JobState.SUCCEEDED, JobState.SUCCEEDED]


@pytest.mark.parametrize("kind", WITH_FUNCTIONS, indirect=True)
@pytest.mark.parametrize("denied", ["-function", "-function|load", "-fcall"])
async def test_a_user_who_may_not_use_functions_works_with_scripts(
    start_server: StartServer, open_engine: OpenEngine, denied: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", *ALL, denied)
    with caplog.at_level(logging.INFO, "headgate.engine"):
        await works(await open_engine(f"redis://some:pw@127.0.0.1:{server.port}"))
        assert [each.message for each in caplog.records if "scripts are used instead" in each.message]
    with server.client() as client:
        assert client.execute_command("FUNCTION", "LIST") == []


@pytest.mark.parametrize("kind", WITH_FUNCTIONS, indirect=True)
@pytest.mark.parametrize("hidden", ["FUNCTION", "FCALL"])
async def test_a_server_that_hides_a_command_is_given_scripts(
    start_server: StartServer, open_engine: OpenEngine, hidden: str
) -> None:
    server = start_server("--rename-command", hidden, "")
    await works(await open_engine(server.url))


async def test_a_user_who_may_run_scripts_only_at_opening_is_told_later(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", *ALL)
        engine = await open_engine(f"redis://some:pw@127.0.0.1:{server.port}", check=False)
        await works(engine)
        client.execute_command("ACL", "SETUSER", "some", "-@scripting")
        with pytest.raises(EngineError, match=r"\+@scripting"):
            await engine.enqueue([NewJob("j", "t")])
    await engine.close()


async def test_what_somebody_flushed_is_loaded_again_once(
    start_server: StartServer, open_engine: OpenEngine, kind: str
) -> None:
    server = start_server()
    engine = await open_engine(server.url)
    await engine.enqueue([NewJob("before", "t")])
    with server.client() as client:
        if kind in WITH_FUNCTIONS:
            client.execute_command("FUNCTION", "FLUSH")
        client.execute_command("SCRIPT", "FLUSH")
        client.config_resetstat()
        await engine.enqueue([NewJob("after", "t")])
        await engine.enqueue([NewJob("later", "t")])
        counted: Any = client.info("commandstats")
    loads = {"cmdstat_function|load", "cmdstat_eval"} & set(counted)
    assert [counted[load]["calls"] for load in loads] == [1]
    assert await engine.states(["before", "after", "later"]) == [JobState.READY] * 3
