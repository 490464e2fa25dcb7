"""Which ready jobs a worker may claim next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import merge
from itertools import islice

from headgate.engine.contract import Worker
from headgate.engine.memory.store import Aside, JobLine, MemoryStore
from headgate.engine.rules.blame import APART, GRAVE, Room, gravity, level
from headgate.engine.rules.stored import NO_THREAD, Stored


class ReadyJobs:
    """The ready jobs of some queues in the order of a claim: queue after queue as given, or all queues as one."""

    def __init__(
        self, store: MemoryStore, queues: Sequence[str] | None, worker: Worker, now: int, *, suspects: bool
    ) -> None:
        self.store = store
        self.queues = queues
        self.worker = worker
        self.now = now
        self.suspects = suspects
        self.without: Collection[str] = ()

    def __call__(self, most: int, without: Collection[str], /) -> Sequence[Stored]:
        self.without = without
        found: list[Stored] = []
        groups = self._groups()
        suspects = self._suspects(groups, most)
        found += [job for job in suspects if job.suspicion >= GRAVE]
        light = sorted((job for job in suspects if job.suspicion < GRAVE), key=lambda job: job.order)
        for names in groups:
            lines = self._lines(self.store.ready, self.store.aside, names)
            first = [line.first(most) for line in lines] + [[job for job in light if job.queue in names]]
            found += islice(merge(*first, key=lambda job: job.order), max(0, most - len(found)))
        return found[:most]

    def _groups(self) -> list[list[str]]:
        """Queues that are read as one line, in the order in which they are read."""
        if self.queues is not None:
            return [[name] for name in dict.fromkeys(self.queues) if name not in self.store.paused]
        store = self.store
        aside = {queue for queue, _, _ in (*store.aside, *store.suspects_aside)}
        return [[name for name in {*store.ready, *store.suspects, *aside} if name not in store.paused]]

    def _lines(
        self, ready: dict[str, JobLine], aside: dict[Aside, JobLine], names: Sequence[str]
    ) -> list[JobLine]:
        again = [
            line for (name, task, why), line in aside.items() if name in names and self._tries(task, why)
        ]
        return [ready[name] for name in names if name in ready] + again

    def _tries(self, task: str, why: int) -> bool:
        """Whether jobs that were set aside are worth another look."""
        return (why == NO_THREAD or task in self.worker.tasks) and task not in self.without

    def _suspects(self, groups: Iterable[Sequence[str]], most: int) -> list[Stored]:
        """The gravest suspects, as far as the worker has room for them. What it cannot start will be set aside."""
        if not self.store.suspects and not self.store.suspects_aside:
            return []
        found: list[Stored] = []
        for names in groups:
            lines = self._lines(self.store.suspects, self.store.suspects_aside, names)
            first = merge(*(self._first(line, most) for line in lines), key=lambda job: job.suspect_order)
            found += islice(first, most)
        found.sort(key=lambda job: -gravity(job.suspicion))
        running = self.store.running.get(self.worker.id, {}).values()
        room = Room(self.worker.concurrency, (level(job, self.now) for job in running))
        able = self.worker.tasks.difference(self.without)
        fit = set(room.first(job for job in found if job.task in able))
        return [job for job in found if job in fit or job.task not in able]

    def _first(self, line: JobLine, most: int) -> list[Stored]:
        """The first of a line of suspects; only light ones where the worker wants no others."""
        return line.first(most) if self.suspects else [job for job in line if job.suspicion < APART][:most]
