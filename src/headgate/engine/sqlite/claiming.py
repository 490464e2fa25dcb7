"""Which ready jobs a worker may claim next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

from headgate.engine.sqlite.rows import Candidate
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step
from headgate.engine.sqlite.turn import Turn

_order: Callable[[Candidate], tuple[int, int, int]] = attrgetter("order")


class ReadyJobs:
    """The ready jobs of some queues in the order of a claim: queue after queue as given, or all queues as one."""

    def __init__(self, step: Step, queues: Sequence[str] | None, turn: Turn) -> None:
        self.step = step
        self.turn = turn
        self.queues = queues

    def __call__(self, most: int) -> Sequence[Candidate]:
        self.step.ledger.write_decided()
        found = self._all(most) if self.queues is None else self._in_order(self.queues, most)
        self.step.ledger.count_held({use.key for job in found for use in job.uses})
        return found

    def _all(self, most: int) -> list[Candidate]:
        aside = self._aside()
        offered = {queue for queue, _ in self.step.ledger.offered_now()}
        names = {*self._filled(), *offered, *(queue for queue, _ in aside)}
        return self._first(sorted(names - self.turn.paused), aside, most)

    def _filled(self) -> frozenset[str]:
        """The queues that may have ready jobs in the file: had some when the turn began, or got some since."""
        return self.turn.ready | self.step.ledger.filled

    def _in_order(self, queues: Sequence[str], most: int) -> list[Candidate]:
        found: list[Candidate] = []
        aside = self._aside()
        for name in dict.fromkeys(queues):
            if name not in self.turn.paused and len(found) < most:
                found += self._first([name], aside, most - len(found))
        return found

    def _first(self, queues: Sequence[str], aside: Sequence[tuple[str, str]], most: int) -> list[Candidate]:
        """The first of what is written as ready, what others set aside, and what this step has offered itself."""
        filled = self._filled()
        lines = [self._read("claimable", queue, most) for queue in queues if queue in filled]
        lines += [
            self._read("claimable_aside", queue, task, most) for queue, task in aside if queue in queues
        ]
        lines += [
            sorted(offers, key=_order) for queue, offers in self.step.ledger.offered_now() if queue in queues
        ]
        lines = [line for line in lines if line]
        return lines[0][:most] if len(lines) == 1 else list(islice(merge(*lines, key=_order), most))

    def _read(self, statement: str, *bindings: object) -> list[Candidate]:
        return [self.step.ledger.claimable(row) for row in self.step.execute(sql(statement), bindings)]

    def _aside(self) -> list[tuple[str, str]]:
        """Jobs that others set aside and this worker knows; rarely any."""
        if not self.turn.aside:
            return []
        return [
            (queue, task) for queue, task in self.step.execute(sql("aside_tasks")) if task in self.turn.known
        ]
