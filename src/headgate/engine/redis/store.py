"""The store as one process has it open: its partitions, calls to them, listeners. A forked child has its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import redis

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Settings
from headgate.engine.redis.calling import Calls, Partition
from headgate.engine.redis.catalogue import VERSION
from headgate.engine.redis.errors import refusal
from headgate.engine.redis.opening import found, version
from headgate.engine.redis.records import decode, encode, packed_limit
from headgate.engine.redis.scripts import READING, script
from headgate.engine.redis.url import Target
from headgate.engine.redis.watching import Listened, Watchers
from headgate.engine.redis.wire import Wire
from headgate.errors import HeadgateError

log = logging.getLogger("headgate.engine")

Answer = tuple[Any, list[Any]]

READ_AT_ONCE, CHANGED_AT_ONCE = 500, 100
"""Jobs per script call: it takes a few milliseconds."""
SLICES_AT_ONCE = 10
"""Slices of a change of limits, each a script call of a few milliseconds, that its caller waits for."""
MOST_HOMES = 10_000
"""Of how many jobs this process remembers the partition; those put in first are forgotten first."""


class Store:
    """Runs verbs on partitions. `declared` are the limits this process stands for: a store that was emptied meanwhile
    hears of them again."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self.target = target
        self.process = os.getpid()
        self.partitions = [Partition(target.prefix, number) for number in range(target.partitions)]
        self.declared: dict[str, Limit] = {}
        self._headers: dict[str, bytes] = {}
        self._noticed: set[str] = set()
        self._ear = 0
        self._homes: dict[str, int] = {}
        self._patience = settings.busy_timeout / SECOND
        self._calls = Calls(target, settings)
        lost = (redis.RedisError, HeadgateError, OSError, ValueError)
        self._channel_of = {partition.tag + "work": partition.number for partition in self.partitions}
        heard = Listened(self._listening, self._channels, lost, self._listen_elsewhere, self._channel_of.get)
        self.watchers = Watchers(heard)
        self._settings = {
            "patience": settings.patience, "reservation_ttl": settings.reservation_ttl,
            "keep_succeeded": settings.keep_succeeded, "keep_failed": settings.keep_failed,
            "keep_cancelled": settings.keep_cancelled,
        }  # fmt: skip

    @property
    def detours(self) -> int:
        """How many calls so far were not sent at once, or more than once."""
        return self._calls.detours

    async def open(self) -> int:
        """Find or found every partition; returns the oldest version before. The first tells whether the store is the
        one that is expected."""
        first, *others = self.partitions
        versions = [await self._found(first)]
        for outcome in await asyncio.gather(*map(self._found, others), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            versions.append(outcome)
        return min(versions)

    async def _found(self, partition: Partition) -> int:
        seconds = self._calls.seconds()
        patience = min(self._patience, seconds)
        return await asyncio.to_thread(found, self._calls.servers, partition, seconds, patience)

    async def version(self) -> int:
        """The version of the data; 0 if there is none. Founds nothing."""
        seconds = self._calls.seconds()
        return await asyncio.to_thread(version, self._calls.servers, self.partitions[0], seconds)

    async def close(self) -> None:
        """Let go of every connection."""
        await self.watchers.stop()
        await self._calls.close()

    async def one(
        self, partition: Partition, verb: str, given: Any, specs: Sequence[bytes] = (), now: int | None = None
    ) -> Answer:
        """Run a verb on one partition; returns its answer and the raw texts that came with it."""
        payload, called = encode(given), script(verb)
        answer: list[Any] = []
        for _ in range(3):
            raw = await self._calls.script(partition, called, (self._header(partition, now), payload, *specs))
            answer = decode(raw.pop())
            if answer[0] == "ok":
                return answer[1], raw
            if answer[0] not in ("gone", "epoch"):
                break
            self._calls.detours += 1
            await self._renew(partition)
        raise refusal(answer, self.target.shown)

    async def all(self, verb: str, given: Any, now: int | None = None) -> list[Answer]:
        """Run a verb on every partition."""
        if len(self.partitions) == 1:
            return [await self.one(self.partitions[0], verb, given, now=now)]
        return await asyncio.gather(*(self.one(p, verb, given, now=now) for p in self.partitions))

    async def answers(self, verb: str, given: Any, now: int | None = None) -> list[Any]:
        """The same without raw texts."""
        return [answer for answer, _ in await self.all(verb, given, now)]

    async def by_ids(
        self, verb: str, ids: Sequence[str], missing: Callable[[Any], bool], now: int | None = None
    ) -> list[Any]:
        """Run a verb that answers a row per job, where the jobs are, on so many jobs at a time that others get through
        in between."""
        rows: list[Any] = []
        most = READ_AT_ONCE if verb in READING else CHANGED_AT_ONCE
        for start in range(0, len(ids), most):
            rows += await self._some(verb, ids[start : start + most], missing, now)
        return rows

    async def _some(
        self, verb: str, ids: Sequence[str], missing: Callable[[Any], bool], now: int | None
    ) -> list[Any]:
        """Each partition speaks of the jobs that it has. Once all are found, no other partition is waited for: one
        whose server is silent holds up only its own jobs."""
        if len(self.partitions) == 1:
            return await self._rows(self.partitions[0], verb, ids, now)
        asked = [asyncio.ensure_future(self._rows(p, verb, ids, now)) for p in self._homes_of(ids)]
        rows: list[Any] = []
        failed: HeadgateError | None = None
        try:
            for answered in asyncio.as_completed(asked):
                try:
                    found = await answered
                except HeadgateError as error:
                    failed = error
                    continue
                rows = [new if missing(old) else old for old, new in zip(rows or found, found, strict=True)]
                if not any(map(missing, rows)):
                    return rows
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if failed is not None:
            raise failed
        return rows

    async def _rows(self, partition: Partition, verb: str, ids: Sequence[str], now: int | None) -> list[Any]:
        answer, raw = await self.one(partition, verb, list(ids), now=now)
        return raw if answer is True else answer

    def settle_in(self, partition: int, ids: Iterable[str]) -> None:
        """Jobs that this process has put into a partition: they need not be looked for in the others."""
        if len(self.partitions) > 1:
            self._homes.update(dict.fromkeys(ids, partition))
            while len(self._homes) > MOST_HOMES:
                del self._homes[next(iter(self._homes))]

    def _homes_of(self, ids: Sequence[str]) -> list[Partition]:
        homes = {self._homes.get(id) for id in ids}
        if None in homes:
            return self.partitions
        return [partition for partition in self.partitions if partition.number in homes]

    async def change(self, verb: str, given: Any, now: int | None) -> list[Any]:
        """Change limits in every partition: the verb's answer, or its last part, says whether keys are left to act on.
        So many slices of them are acted on before this returns; the others by the sweeps that follow."""
        answers = await self.answers(verb, given, now)
        for partition, answer in zip(self.partitions, answers, strict=True):
            more: Any = answer if isinstance(answer, bool) else answer[-1]
            for _ in range(SLICES_AT_ONCE):
                if not more:
                    break
                more, _ = await self.one(partition, "go_on", [], now=now)
        return answers

    def remember(self, limits: Iterable[Limit]) -> None:
        """Limits that were declared through this process."""
        self.declared.update((limit.name, limit) for limit in limits)

    def _header(self, partition: Partition, now: int | None) -> bytes:
        """The same bytes again wherever possible: scripts remember what they have read."""
        if now is None and (known := self._headers.get(partition.epoch)) is not None:
            return known
        header = encode(
            {
                "now": False if now is None else now,
                "epoch": partition.epoch,
                "version": VERSION,
                "settings": self._settings,
                "cluster": self.target.mode == "cluster",
            }
        )
        if now is None:
            self._headers[partition.epoch] = header
        return header

    async def _renew(self, partition: Partition) -> None:
        """The store is not the one that was opened: it was flushed, or a server without its data has taken over."""
        before = partition.epoch
        await self._found(partition)
        if before and partition.epoch not in (before, *self._noticed):
            self._noticed.add(partition.epoch)
            log.error(
                "%s does not hold the jobs it held before: it was flushed, or a server without its data has taken "
                "over. Limits are declared again; jobs that are gone stay gone",
                self.target.shown,
            )
        if self.declared:
            limits = [packed_limit(limit) for limit in self.declared.values()]
            await self.one(partition, "declare", limits)

    async def _listening(self) -> Wire:
        return await self._calls.listening(self.partitions[self._ear])

    def _listen_elsewhere(self) -> None:
        """In a cluster every node passes on what is published on any: the next one may be alive."""
        self._calls.servers.doubt(self.partitions[self._ear].slot)
        self._ear = (self._ear + 1) % len(self.partitions)

    def _channels(self, kind: str) -> list[str]:
        return [partition.tag + kind for partition in self.partitions]
