"""Which ready jobs a worker may claim next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import merge
from itertools import islice

from headgate.engine.memory.store import Store
from headgate.engine.stored import Stored


class ReadyJobs:
    """The ready jobs of some queues in the order of a claim: queue after queue as given, or all queues as one."""

    def __init__(self, store: Store, queues: Sequence[str] | None, known: Collection[str]) -> None:
        self.store = store
        self.queues = queues
        self.known = known

    def __call__(self, most: int) -> Sequence[Stored]:
        if self.queues is None:
            names = {*self.store.ready, *(queue for queue, _ in self.store.aside)}
            return self._first([name for name in names if name not in self.store.paused], most)
        found: list[Stored] = []
        for name in dict.fromkeys(self.queues):
            if name not in self.store.paused:
                found += self._first([name], most - len(found))
        return found

    def _first(self, names: Sequence[str], most: int) -> list[Stored]:
        lines = [self.store.ready[name] for name in names if name in self.store.ready]
        lines += [
            line for (name, task), line in self.store.aside.items() if name in names and task in self.known
        ]
        return list(islice(merge(*(line.first(most) for line in lines), key=lambda job: job.order), most))
