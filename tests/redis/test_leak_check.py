"""The leak check itself: whatever is left behind, or is missing, is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.contract import Limit, Settings, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.url import parse
from headgate.job import NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import KINDS
from tests.support.redis_leaks import check_and_clear, leaks
from tests.support.redis_servers import fresh_prefix, shared

HELD, WINDOW = Key("A", "1"), Key("W", rate=True)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (("SET", "more", "x"), "more is not in the catalogue"),
        (("EXPIRE", "meta", "600"), "meta expires"),
        (("SET", "paused", "x"), "paused is a string, not a set"),
        (("DEL", "spec:held"), "parts of jobs"),
        (("SET", "past:held", "x"), "parts of jobs"),
        (("SET", "spec:gone", "x"), "parts of jobs"),
        (("HINCRBY", "counts", "ready:default", "1"), "counts"),
        (("HSET", "offers", "7:defaultc0:A=1", "1"), "offers"),
        (("ZADD", "jobs", "99", "gone"), "jobs differs"),
        (("ZADD", "ended", "99", "held"), "ended differs"),
        (("ZADD", "scheduled", "99", "000000000099gone"), "scheduled"),
        (("HSET", "unique", "0:other", "held"), "unique"),
        (("SADD", "queues", "idle"), "queues"),
        (("SADD", "asides", "7:defaultother"), "asides"),
        (("ZADD", "wait:7:defaultc0:A=1", "0", f"50{0:016}{99:012}gone"), "lines of waiting"),
        (("HSET", "held:c0:A=1", "gone", "1"), "held:c0:A=1"),
        (("HSET", "held:c0:A=2", "gone", "1"), "held:"),
        (("ZADD", "helds", "0", "A=c0:A=2"), "helds"),
        (("ZADD", "waited", "0", "A=c0:A=2"), "waited"),
        (("HSET", "waitqs", "c0:A=2", "x"), "waitqs"),
        (("ZADD", "reserved", "9", "4:heldc0:A=1"), "reserved"),
        (("ZADD", "timers", "9", "r0:X"), "timers"),
        (("ZADD", "leases", "9", "gone"), "leases"),
        (("ZADD", "run:gone", "9", "held"), "run"),
        (("ZADD", "stop:w", "9", "gone"), "stop:w names"),
        (("ZADD", "windows", "9", "r0:X"), "starts:"),
        (("HSET", "spent", "r0:X", "1"), "spent"),
        (("ZADD", "untils", "9", "gone"), "untils"),
    ],
)
async def test_what_is_left_behind_is_noticed(spoil: tuple[str, ...], words: str) -> None:
    process, prefix = shared(KINDS[0]), fresh_prefix()
    tag = f"{{{prefix}:p0}}:"
    url = f"{process.url}?prefix={prefix}"
    engine = RedisEngine(parse(url, url), Settings())
    await engine.open()
    limits = [Limit("A", "concurrency", 1), Limit("W", "rate", 1, 60_000_000, algorithm="sliding_window")]
    uses = (Use(HELD.ident), Use(WINDOW.ident, 1))
    jobs = [NewJob("held", "t", unique="u", uses=uses), NewJob("waits", "t", uses=uses[:1])]
    jobs += [NewJob("later", "t", delay=60_000_000), NewJob("ready", "unknown")]
    await engine.enqueue(jobs, limits=limits)
    await engine.register(Worker("w", frozenset({"t"}), lease=600_000_000))
    assert len((await engine.exchange("w", [], 5)).attempts) == 1
    await engine.close()
    with process.client() as client:
        keys: Any = list(client.scan_iter(match=f"{tag}*"))
        assert leaks(client, keys) == []
        command, name, *rest = spoil
        client.execute_command(command, tag + name, *rest)
    with pytest.raises(AssertionError, match=words):
        check_and_clear(process, prefix)
    with process.client() as client:
        assert list(client.scan_iter(match=f"{tag}*")) == []
