"""The same troubles at the command line: one line that says what to do, and an exit code that scripts can trust."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.redis.conftest import StartServer
from tests.support.command_line import NEED_A_STORE, SHOP, Headgate
from tests.support.redis_servers import RedisProcess, free_port

URL, STORE = 2, 3
"""Exit codes: a wrong URL, and a store that cannot be used."""


def no_scripts(server: RedisProcess) -> str:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-@scripting")
    return f"redis://poor:pw@127.0.0.1:{server.port}"


def no_channels(server: RedisProcess) -> str:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "mute", "on", ">pw", "~*", "resetchannels", "+@all")
    return f"redis://mute:pw@127.0.0.1:{server.port}"


def full(server: RedisProcess) -> str:
    with server.client() as client:
        client.config_set("maxmemory", "100kb")
    return server.url


def replica(server: RedisProcess) -> str:
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
    return server.url


def newer(server: RedisProcess) -> str:
    with server.client() as client:
        client.hset("{headgate:p0}:meta", mapping={"version": "99", "epoch": "e", "partitions": "1"})
    return server.url


def foreign(server: RedisProcess) -> str:
    with server.client() as client:
        client.set("{headgate:p0}:jobs", "mine")
    return server.url


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        (lambda server: f"redis://:guess@127.0.0.1:{server.port}", STORE, "password is wrong"),
        (no_scripts, STORE, "+@scripting"),
        (no_channels, STORE, "&{prefix:*"),
        (full, STORE, "out of memory"),
        (replica, STORE, "this server is a replica"),
        (newer, STORE, "holds data of version 99"),
        (foreign, STORE, "give this app a prefix of its own"),
        (lambda server: f"redis://127.0.0.1:{free_port()}", STORE, "cannot be reached"),
        (lambda server: f"rediss://127.0.0.1:{server.port}?ca=/nowhere", URL, "cannot be read"),
        (lambda server: f"{server.url}?partition=2", URL, "unknown option 'partition'"),
        (lambda server: f"redis://127.0.0.1:{server.port}/99", URL, "does not have"),
    ],
)
def test_trouble_is_one_line_and_an_exit_code(
    start_server: StartServer, tmp_path: Path, trouble: Callable[[RedisProcess], str], code: int, words: str
) -> None:
    server = start_server(spoiled=True)
    url = trouble(server)
    before = kept(server)
    outcome = Headgate(tmp_path)("enqueue", SHOP, "send", "to=ada", "--url", url)
    assert outcome.code == code
    assert (outcome.out, words in outcome.err, outcome.err.count("\n")) == ("", True, 1)
    assert kept(server) == before, "nothing was touched"


def kept(server: RedisProcess) -> Any:
    with server.client() as client:
        return sorted((key, client.dump(key)) for key in client.scan_iter())


def test_looking_and_steering_create_no_store(start_server: StartServer, tmp_path: Path) -> None:
    server, headgate = start_server(), Headgate(tmp_path)
    for command in NEED_A_STORE:
        outcome = headgate(*command.split(), "--url", server.url)
        assert outcome.code == STORE, command
        assert "no Headgate store at redis://" in outcome.err
        assert outcome.err.count("\n") == 1
    with server.client() as client:
        assert client.dbsize() == 0
    assert headgate("migrate", "--url", server.url).code == 0
    assert headgate("jobs", "--url", server.url).code == 0
