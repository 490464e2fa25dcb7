"""Snapshots: a small partition is read in one step, a larger one in pages, so that no script keeps others waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.engine.contract import JobView, Snapshot
from headgate.engine.redis.calling import Partition
from headgate.engine.redis.reading import view
from headgate.engine.redis.records import or_none
from headgate.engine.redis.store import Store
from headgate.keys import Key

MOST = 100
"""Keys per script call."""


class _Pages:
    """What has been read so far, of all partitions."""

    def __init__(self, store: Store, now: int | None) -> None:
        self.store = store
        self.now = now
        self.latest = 0
        self.torn = len(store.partitions) > 1
        self.jobs: list[JobView] = []
        self.keys: dict[str, Any] = {}
        self.timers: dict[str, int] = {}
        self.workers: set[str] = set()
        self.changing: set[str] = set()
        self.virtual: dict[tuple[str, int], int] = {}

    async def _ask(self, partition: Partition, verb: str, given: list[Any]) -> Any:
        return (await self.store.one(partition, verb, given, now=self.now))[0]

    async def read(self, partition: Partition) -> None:
        """One partition."""
        views, last, self.latest, rest, changing = await self._ask(partition, "snapshot", [False])
        self.changing |= set(changing)
        self.jobs += map(view, views)
        if rest:
            self._take(rest[0])
            self.timers |= dict(rest[1])
            self.workers |= set(rest[2])
            self._come_to(rest[3])
            return
        self.torn = True
        await self._read_jobs(partition, last)
        await self._read_keys(partition)
        await self._read_timers(partition)

    async def _read_jobs(self, partition: Partition, last: int | bool) -> None:
        while last is not False:
            views, last, self.latest, *_ = await self._ask(partition, "snapshot", [last])
            self.jobs += map(view, views)

    async def _read_keys(self, partition: Partition) -> None:
        last: str | bool = False
        while True:
            rows, last = await self._ask(partition, "snapshot_keys", [False, last])
            self._take(rows)
            if last is False:
                break
        named = {key for job in self.jobs for key in (job.waiting_on, job.offered_by) if key is not None}
        missing = sorted(named - self.keys.keys())
        for start in range(0, len(missing), MOST):
            rows, _ = await self._ask(partition, "snapshot_keys", [missing[start : start + MOST], False])
            self._take(rows)

    async def _read_timers(self, partition: Partition) -> None:
        more, virtual = True, list[str]()
        while more:
            timers, more, workers, virtual = await self._ask(partition, "snapshot_rest", [len(self.timers)])
            self.timers |= dict(timers)
            self.workers |= set(workers)
        self._come_to(virtual)

    def _come_to(self, virtual: list[str]) -> None:
        """A place is a priority, two digits, and a queue. Partitions have come to places of their own."""
        for place, tag in zip(virtual[::2], virtual[1::2], strict=True):
            at = place[2:], int(place[:2])
            self.virtual[at] = max(self.virtual.get(at, 0), int(float(tag)))

    def _take(self, rows: Iterable[Any]) -> None:
        self.keys.update((row[0], row[1:]) for row in rows)


async def snapshot(store: Store, now: int | None) -> Snapshot:
    """All partitions, one after the other."""
    pages = _Pages(store, now)
    for partition in store.partitions:
        await pages.read(partition)
    return Snapshot(
        jobs=tuple(pages.jobs),
        holders={
            key: {id: bool(reserved) for id, reserved, _ in holders}
            for key, (holders, _, _) in pages.keys.items()
            if holders
        },
        free={key: or_none(free) for key, (_, free, _) in pages.keys.items()},
        timers=pages.timers,
        workers=frozenset(pages.workers),
        now=pages.latest,
        most={key: most for key, (_, _, most) in pages.keys.items() if most is not False},
        unsettled=frozenset(
            key for key in pages.keys if pages.changing and Key.of(key).name in pages.changing
        ),
        torn=pages.torn,
        units=_larger(pages.keys),
        virtual=pages.virtual,
    )


def _larger(keys: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Holders' units where these are not one."""
    units = {key: {id: units for id, _, units in row[0] if units != 1} for key, row in keys.items()}
    return {key: held for key, held in units.items() if held}
