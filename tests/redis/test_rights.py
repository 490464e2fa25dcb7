"""Rights: a user who may not do all that scripts do is told when the store is opened, and nothing is touched."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from headgate.engine.redis import RedisEngine, scripts
from headgate.errors import EngineError
from headgate.job import JobState, NewJob
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.redis_servers import RedisProcess

EVERYTHING = ("reset", "on", ">pw", "~*", "&*", "+@all")
COMMANDS = (
    "append", "del", "hdel", "hincrby", "hset", "mset", "publish", "sadd", "srem", "zadd", "zrem", "zremrangebyrank",
    "zremrangebyscore",
)  # fmt: skip


def used() -> set[str]:
    """Every command that some script calls."""
    folders = [resources.files(scripts).joinpath(folder) for folder in ("lib", "verbs")]
    texts = [
        path.read_text() for folder in folders for path in folder.iterdir() if path.name.endswith(".lua")
    ]
    assert len(texts) > 40
    return {name.lower() for text in texts for name in re.findall(r"'([A-Z]{3,})'", text)}


def keys(server: RedisProcess) -> Any:
    with server.client() as client:
        return client.dbsize()


def user(server: RedisProcess, *rules: str) -> str:
    """The URL of a user with these rights."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "some", *rules)
    return f"redis://some:pw@127.0.0.1:{server.port}"


def test_every_command_that_writes_is_tried_at_opening(start_server: StartServer) -> None:
    with start_server().client() as client:
        known: Any = client.command()
    writing = {name for name in used() if name in known and "write" in known[name]["flags"]}
    assert {*writing, "publish"} == set(COMMANDS)


@pytest.mark.parametrize("founded", [False, True])
async def test_a_command_that_is_not_allowed_is_named_at_opening(
    start_server: StartServer, open_engine: OpenEngine, founded: bool
) -> None:
    server = start_server()
    if founded:
        await open_engine(server.url)
    before = keys(server)
    for command in COMMANDS:
        url = user(server, *EVERYTHING, f"-{command}")
        with pytest.raises(EngineError, match=rf"\+@write .*{command.upper()}"):
            await open_engine(url, check=False)
    assert keys(server) == before


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(("reset", "on", ">pw", "~*", "+@all", "resetchannels"), id="no channels"),
        pytest.param(("reset", "on", ">pw", "&*", "+@all"), id="no keys"),
        pytest.param(("reset", "on", ">pw", "~{headgate:p0}:meta", "&*", "+@all"), id="one key"),
        pytest.param(("reset", "on", ">pw", "~*", "&*", "+@all", "-@read"), id="no reading"),
    ],
)
async def test_a_user_without_keys_channels_or_reading_is_told_at_opening(
    start_server: StartServer, open_engine: OpenEngine, rules: tuple[str, ...]
) -> None:
    server = start_server()
    with pytest.raises(EngineError, match=r"this user may not do what Headgate needs: \+@read"):
        await open_engine(user(server, *rules), check=False)
    assert keys(server) == 0


async def test_a_right_that_is_taken_away_later_is_said(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    server = start_server()
    engine: RedisEngine = await open_engine(user(server, *EVERYTHING))
    await engine.enqueue([NewJob("before", "t")])
    user(server, "-@read")
    with pytest.raises(EngineError, match="this user may not do what Headgate needs"):
        await engine.enqueue([NewJob("j", "t")])
    user(server, "+@all")
    assert await engine.states(["before", "j"]) == [JobState.READY, None]
