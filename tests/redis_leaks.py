"""The leak check: every key is in the catalogue and of its type; every index, sum and count agrees with the jobs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import redis

from headgate.engine.redis.catalogue import FAMILIES, SINGLE, is_known
from headgate.engine.redis.records import Life, Need, read_record
from tests.redis_servers import RedisProcess

ENDED = ("succeeded", "failed", "cancelled")


def check_and_clear(process: RedisProcess, prefix: str) -> None:
    """Check all partitions of a prefix, then delete them."""
    with process.client() as client:
        keys: list[bytes] = list(client.scan_iter(match=f"{{{prefix}:p*", count=10_000))
        try:
            problems = leaks(client, keys)
        finally:
            for start in range(0, len(keys), 1000):
                client.delete(*keys[start : start + 1000])
    assert problems == []


def check_all(process: RedisProcess) -> None:
    """Check every store in every database of a server that still runs."""
    if process.process is None:
        return
    with process.client() as client:
        keyspace: Any = client.info("keyspace")
    for database in keyspace:
        with process.client(db=int(database.removeprefix("db"))) as client:
            assert leaks(client, list(client.scan_iter(match="{*:p*}:*", count=10_000))) == []


def leaks(client: redis.Redis, keys: list[bytes]) -> list[str]:
    """Everything that should not be there, partition by partition."""
    partitions: dict[bytes, list[bytes]] = {}
    for key in keys:
        tag, _, name = key.partition(b"}:")
        partitions.setdefault(tag + b"}:", []).append(name)
    return [
        problem for tag, names in partitions.items() for problem in _Partition(client, tag, names).problems()
    ]


class _Partition:
    def __init__(self, client: redis.Redis, tag: bytes, names: list[bytes]) -> None:
        self.client: Any = client
        self.tag = tag
        self.names = [name.decode() for name in names]
        self.jobs: dict[str, tuple[Need, Life]] = {}
        ids = [name for name in self.names if name.startswith("job:")]
        for name, record in zip(ids, self._each("get", ids), strict=True):
            life, need = read_record(record)
            self.jobs[name[4:]] = (need, life)

    def _each(self, command: str, names: list[str]) -> list[Any]:
        """The answers to a command for many keys, in a few round trips."""
        answers: list[Any] = []
        for start in range(0, len(names), 2000):
            with self.client.pipeline(transaction=False) as pipe:
                for name in names[start : start + 2000]:
                    getattr(pipe, command)(self.tag + name.encode())
                answers += pipe.execute()
        return answers

    def problems(self) -> list[str]:
        found = self._strangers()
        found += self._differs("counts", self._counts())
        found += self._differs("offers", self._offers())
        found += self._members("jobs", set(self.jobs))
        found += self._parts()
        found += self._members("ended", {id for id, (_, life) in self.jobs.items() if life.state in ENDED})
        found += self._lines()
        return [f"{self.tag.decode()}{problem}" for problem in found]

    def _strangers(self) -> list[str]:
        types, expiries = self._each("type", self.names), self._each("ttl", self.names)
        told = zip(self.names, types, expiries, strict=True)
        return [problem for name, type, ttl in told for problem in _stranger(name, type.decode(), ttl)]

    def _counts(self) -> dict[str, int]:
        return dict(Counter(f"{life.state}:{need.queue}" for need, life in self.jobs.values()))

    def _offers(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for need, life in self.jobs.values():
            if life.offered_by:
                total[f"{len(need.queue.encode())}:{need.queue}{life.offered_by}"] += life.units
        return dict(total)

    def _differs(self, name: str, wanted: dict[str, int]) -> list[str]:
        stored = {f.decode(): int(n) for f, n in self.client.hgetall(self.tag + name.encode()).items()}
        return [] if stored == wanted else [f"{name} is {stored}, but the jobs say {wanted}"]

    def _members(self, name: str, wanted: set[str]) -> list[str]:
        stored = {member.decode() for member in self.client.zrange(self.tag + name.encode(), 0, -1)}
        return [] if stored == wanted else [f"{name} differs from the jobs by {stored ^ wanted}"]

    def _parts(self) -> list[str]:
        """Every job has its spec, and those that were tried before have a past."""
        wanted = {f"spec:{id}" for id in self.jobs}
        wanted |= {f"past:{id}" for id, (_, life) in self.jobs.items() if life.past}
        stored = {name for name in self.names if name.startswith(("spec:", "past:"))}
        return [] if stored == wanted else [f"parts of jobs differ from the jobs by {stored ^ wanted}"]

    def _lines(self) -> list[str]:
        """Every entry of a line is a job in that state, and the lines hold as many as there are."""
        found: list[str] = []
        for state, families in {
            "ready": ("ready:", "aside:"),
            "waiting": ("wait:",),
            "running": ("run:",),
        }.items():
            skip = 0 if state == "running" else 30
            lines = [name for name in self.names if name.startswith(families)]
            ids = [
                member[skip:].decode()
                for line in lines
                for member in self.client.zrange(self.tag + line.encode(), 0, -1)
            ]
            wanted = sorted(id for id, (_, life) in self.jobs.items() if life.state == state)
            if sorted(ids) != wanted:
                found.append(f"lines of {state} jobs hold {sorted(ids)}, but the jobs say {wanted}")
        return found


def _stranger(name: str, type: str, ttl: int) -> list[str]:
    if not is_known(name):
        return [f"{name} is not in the catalogue"]
    kind = SINGLE.get(name) or next(kind for start, kind in FAMILIES.items() if name.startswith(start))
    wrong = [f"{name} is a {type}, not a {kind.type}"] if type != kind.type else []
    if ttl != -1:
        wrong.append(f"{name} expires")
    return wrong
