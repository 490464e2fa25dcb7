"""The leak check: every key is in the catalogue and of its type; every index, sum and count agrees with the jobs."""

from __future__ import annotations

import atexit
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import redis

from headgate.engine.redis.catalogue import FAMILIES, SINGLE, is_known
from headgate.engine.redis.records import Life, Need, read_record
from headgate.keys import Key
from tests.support.redis_servers import RedisProcess

ALL = Path(__file__).with_suffix(".lua").read_text()
AT_ONCE = 500
ENDED = ("succeeded", "failed", "cancelled")
UNSTARTED = ("scheduled", "ready", "waiting")


def check_and_clear(process: RedisProcess, prefix: str) -> None:
    """Check all partitions of a prefix, then delete them."""
    client = _client(process, os.getpid())
    keys: list[bytes] = list(client.scan_iter(match=f"{{{prefix}:p*", count=10_000))
    try:
        problems = leaks(client, keys)
    finally:
        for start in range(0, len(keys), 1000):
            client.delete(*keys[start : start + 1000])
    assert problems == [], "\n".join(problems)


@cache
def _client(process: RedisProcess, pid: int) -> redis.Redis:
    """One of this process that stays connected: thousands of tests ask by it."""
    client = process.client()
    atexit.register(client.close)
    return client


def check_all(process: RedisProcess) -> None:
    """Check every store in every database of a server that still runs."""
    if process.process is None:
        return
    with process.client() as client:
        keyspace: Any = client.info("keyspace")
    for database in keyspace:
        with process.client(db=int(database.removeprefix("db"))) as client:
            problems = leaks(client, list(client.scan_iter(match="{*:p*}:*", count=10_000)))
        assert problems == [], "\n".join(problems)


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
    """All that a partition has, read in a few round trips."""

    def __init__(self, client: redis.Redis, tag: bytes, names: list[bytes]) -> None:
        self.tag = tag
        self.names = [name.decode() for name in names]
        self.told: list[tuple[str, int]] = []
        self.stored: dict[str, Any] = {}
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            answers: Any = client.eval(ALL, len(some), *(tag + name for name in some))
            for name, (kind, expiry, held) in zip(some, answers, strict=True):
                self.told.append((kind.decode(), expiry))
                pairs = kind == b"hash"
                self.stored[name.decode()] = dict(zip(held[::2], held[1::2], strict=True)) if pairs else held
        self.jobs: dict[str, tuple[Need, Life]] = {}
        for name in self.names:
            if name.startswith("job:"):
                life, need = read_record(self.stored[name])
                self.jobs[name[4:]] = (need, life)

    def problems(self) -> list[str]:
        found = self._strangers()
        found += self._differs("counts", self._counts())
        found += self._differs("offers", self._offers())
        found += self._members("jobs", set(self.jobs))
        found += self._parts()
        found += self._by_state()
        found += self._members("ended", {id for id, (_, life) in self.jobs.items() if life.state in ENDED})
        found += self._lines()
        found += self._same("scheduled", {m[12:] for m in self._all("scheduled")}, self._ids("scheduled"))
        found += self._unique()
        found += self._held()
        found += self._larger()
        found += self._starting()
        found += self._shares()
        found += self._waited()
        found += self._workers()
        found += self._windows()
        return [f"{self.tag.decode()}{problem}" for problem in found]

    def _strangers(self) -> list[str]:
        told = zip(self.names, self.told, strict=True)
        return [problem for name, (type, ttl) in told for problem in _stranger(name, type, ttl)]

    def _counts(self) -> dict[str, int]:
        return dict(Counter(f"{life.state}:{need.queue}" for need, life in self.jobs.values()))

    def _offers(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for need, life in self.jobs.values():
            if life.offered_by:
                total[f"{len(need.queue.encode())}:{need.queue}{life.offered_by}"] += life.units
        return dict(total)

    def _differs(self, name: str, wanted: dict[str, int]) -> list[str]:
        stored = {field.decode(): int(number) for field, number in self.stored.get(name, {}).items()}
        return [] if stored == wanted else [f"{name} is {stored}, but the jobs say {wanted}"]

    def _members(self, name: str, wanted: set[str]) -> list[str]:
        stored = set(self._all(name))
        return [] if stored == wanted else [f"{name} differs from the jobs by {stored ^ wanted}"]

    def _by_state(self) -> list[str]:
        """Jobs are listed, or counted in their block, by state, except those of older data that no sweep has met."""
        unindexed = int(self.stored.get("meta", {}).get(b"unindexed") or -1)
        found: list[str] = []
        for state in ("failed", "cancelled"):
            late = {id for id in self._ids(state) if self.jobs[id][1].seq <= unindexed}
            found += self._members(state, self._ids(state) - late | late & set(self._all(state)))
        for state in ("scheduled", "ready", "waiting"):
            seqs = (self.jobs[id][1].seq for id in self._ids(state))
            blocks = Counter(str(seq // 256) for seq in seqs if seq > unindexed)
            found += self._differs(f"blocks:{state}", dict(blocks))
        return found

    def _parts(self) -> list[str]:
        """Every job has its spec, and those that were tried before have a past."""
        wanted = {f"spec:{id}" for id in self.jobs}
        wanted |= {f"past:{id}" for id, (_, life) in self.jobs.items() if life.past}
        stored = {name for name in self.names if name.startswith(("spec:", "past:"))}
        return [] if stored == wanted else [f"parts of jobs differ from the jobs by {stored ^ wanted}"]

    # What lasts while it is used is gone when nothing uses it.

    def _all(self, name: str) -> list[str]:
        """The members of a collection, or the fields of a hash."""
        return [member.decode() for member in self.stored.get(name, ())]

    def _family(self, start: str) -> set[str]:
        return {name.removeprefix(start) for name in self.names if name.startswith(start)}

    def _ids(self, state: str) -> set[str]:
        return {id for id, (_, life) in self.jobs.items() if life.state == state}

    @staticmethod
    def _same(name: str, stored: set[str], wanted: set[str]) -> list[str]:
        return [] if stored == wanted else [f"{name} differs from what is used by {stored ^ wanted}"]

    def _unique(self) -> list[str]:
        wanted = {
            f"{len(need.tenant.encode())}:{need.tenant}{need.unique}"
            for need, life in self.jobs.values()
            if need.unique is not False and _keeps_unique(need, life)
        }
        return self._same("unique", set(self._all("unique")), wanted)

    def _held(self) -> list[str]:
        holders: dict[str, set[str]] = {}
        for id, (_, life) in self.jobs.items():
            for key in life.holds:
                holders.setdefault(key, set()).add(id)
        found = self._same("held:", self._family("held:"), set(holders))
        found += self._same(
            "helds", set(self._all("helds")), {f"{Key.of(key).name}={key}" for key in holders}
        )
        for key, ids in holders.items():
            found += self._same(f"held:{key}", set(self._all(f"held:{key}")), ids)
        ready = {
            f"{len(id.encode())}:{id}{key}" for id in self._ids("ready") for key in self.jobs[id][1].holds
        }
        return found + self._same("reserved", set(self._all("reserved")), ready)

    def _larger(self) -> list[str]:
        """Units are in the holder records, and what they have beyond one each is summed."""
        wanted: Counter[str] = Counter()
        found: list[str] = []
        for id, (_, life) in self.jobs.items():
            for key, kept in life.holds.items():
                units = 1 if isinstance(kept, bool) else abs(kept)
                wanted[key] += units - 1
                stored = self.stored.get(f"held:{key}", {}).get(id.encode())
                if int((stored or b"").decode().partition("*")[2] or 1) != units:
                    found.append(f"held:{key} has {stored} of {id}, which has {units}")
        return found + self._differs("larger", {key: units for key, units in wanted.items() if units})

    def _starting(self) -> list[str]:
        wanted = {
            id for id, (_, life) in self.jobs.items() if life.start_by is not None and life.state in UNSTARTED
        }
        return self._same("starting", set(self._all("starting")), wanted)

    def _shares(self) -> list[str]:
        """Jobs of shares stand in lines of their own, too, and are counted by place."""
        lines: dict[str, set[str]] = {}
        counted: Counter[str] = Counter()
        for id, (need, life) in self.jobs.items():
            if not (need.more and need.more[0]):
                continue
            head, place = need.more[0].replace("\0", "\0\x7f") + "\0", f"{need.priority:02}{need.queue}"
            if life.state in ("ready", "waiting"):
                lines.setdefault(place, set()).add(f"{head}{id}")
            counted[place] += life.state in ("ready", "waiting", "running")
        found = self._same("share:", self._family("share:"), set(lines))
        for place, members in lines.items():
            stored = {re.sub(r"\0\d{46}", "\0", m) for m in self._all(f"share:{place}")}
            found += self._same(f"share:{place}", stored, members)
        found += self._differs("sharing", {place: count for place, count in counted.items() if count})
        weighed = set(self._all("weights")) | set(self._all("declared"))
        found += self._same("shares", set(self._all("shares")), weighed)
        busy = {place for place, count in counted.items() if count}
        forgotten = set(self._all("virtual")) - busy - set(self._all("quiet"))
        late = set(self._all("weightends")) - set(self._all("weights"))
        found += self._same("learnt", set(self._all("learnt")), set(self._all("means")))
        return found + [
            f"{what}: {strays}"
            for what, strays in (("virtual times that stay", forgotten), ("weightends of no weight", late))
            if strays
        ]

    def _waited(self) -> list[str]:
        waiting = [life.waiting_on for _, life in self.jobs.values() if life.waiting_on is not None]
        found = self._same(
            "waited", set(self._all("waited")), {f"{Key.of(key).name}={key}" for key in waiting}
        )
        found += self._same("waitqs", set(self._all("waitqs")), set(waiting))
        ready = {need.queue for need, life in self.jobs.values() if life.state == "ready"}
        found += self._same("queues", set(self._all("queues")), ready)
        found += self._same("asides", set(self._all("asides")), self._family("aside:"))
        found += self._same("threads", set(self._all("threads")), self._family("thread:"))
        found += self._same("suspects", set(self._all("suspects")), self._family("suspect:"))
        found += self._suspects()
        idle = set(self._all("timers")) - set(waiting)
        return found + ([f"timers of keys without waiters: {idle}"] if idle else [])

    def _suspects(self) -> list[str]:
        """Ready suspects stand in lines of their own."""
        wanted = {id for id in self._ids("ready") if self.jobs[id][1].suspicion}
        stored = {member[47:] for line in self._family("suspect:") for member in self._all(f"suspect:{line}")}
        return self._same("suspect:", stored, wanted)

    def _workers(self) -> list[str]:
        workers = set(self._all("workers"))
        found = self._same("leases", set(self._all("leases")), workers)
        late = set(self._all("numbers")) - workers
        found += [f"numbers of unknown workers: {late}"] if late else []
        computed = set(self._all("computed"))
        found += self._same("refreshed", set(self._all("refreshed")), computed)
        found += self._same(
            "computes", set(self._all("computes")), {f"{Key.of(k).name}={k}" for k in computed}
        )
        strays = (self._family("run:") | self._family("stop:")) - workers
        found += [f"what unknown workers run: {strays}"] if strays else []
        for worker in self._family("stop:"):
            late = set(self._all(f"stop:{worker}")) - set(self._all(f"run:{worker}"))
            found += [f"stop:{worker} names what is not run: {late}"] if late else []
        return found

    def _windows(self) -> list[str]:
        windows = set(self._all("windows"))
        minutes = self._same("did:", self._family("did:"), set(self._all("minutes")))
        found = self._same("starts:", self._family("starts:"), windows)
        found += self._same("spent", set(self._all("spent")), windows)
        late = set(self._all("untils")) - set(self._all("overrides"))
        strays = set(self._all("periods")) - set(self._all("meters"))
        found += [f"periods of no meter: {strays}"] if strays else []
        return found + minutes + ([f"untils of no override: {late}"] if late else [])

    def _lines(self) -> list[str]:
        """Every entry of a line is a job in that state, and the lines hold as many as there are."""
        found: list[str] = []
        for state, families in {
            "ready": ("ready:", "aside:", "thread:", "suspect:"),
            "waiting": ("wait:",),
            "running": ("run:",),
        }.items():
            skip = 0 if state == "running" else 46
            lines = [name for name in self.names if name.startswith(families)]
            ids = [
                member[skip + line.startswith("suspect:") :].decode()
                for line in lines
                for member in self.stored[line]
            ]
            wanted = sorted(id for id, (_, life) in self.jobs.items() if life.state == state)
            if sorted(ids) != wanted:
                found.append(f"lines of {state} jobs hold {sorted(ids)}, but the jobs say {wanted}")
        return found


def _keeps_unique(need: Need, life: Life) -> bool:
    if life.state in ENDED:
        return life.unique_until is not None
    return not (need.more and need.more[3]) or life.attempt == 0


def _stranger(name: str, type: str, ttl: int) -> list[str]:
    if not is_known(name):
        return [f"{name} is not in the catalogue"]
    kind = SINGLE.get(name) or next(kind for start, kind in FAMILIES.items() if name.startswith(start))
    wrong = [f"{name} is a {type}, not a {kind.type}"] if type != kind.type else []
    if ttl != -1:
        wrong.append(f"{name} expires")
    return wrong
