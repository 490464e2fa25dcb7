"""Which ready jobs a worker may claim next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter

import msgspec

from headgate.engine.rules.blame import APART, GRAVE, Room, gravity, level
from headgate.engine.rules.stored import NO_THREAD, UNKNOWN_TASK
from headgate.engine.sqlite.claim_context import ClaimContext
from headgate.engine.sqlite.rows import GARBLED, Candidate
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Transaction
from headgate.retry import RetryPolicy

_order: Callable[[Candidate], tuple[int, int, int, int]] = attrgetter("order")


Aside = tuple[str, str, int]
"""Queue and task of jobs that were set aside, and why."""
GRAVITIES = range(GRAVE, 0, -1)
"""Of suspects, in the order in which they are tried."""
LIGHT = range(APART - 1, 0, -1)
"""Of those that are run like any other job."""


class Suspect(msgspec.Struct, frozen=True):
    """A running suspect as blame sees it."""

    suspicion: int
    lost: int
    lost_after: int
    started_at: int
    retry: RetryPolicy = RetryPolicy()


class ReadyJobs:
    """The ready jobs of some queues in the order of a claim: queue after queue as given, or all queues as one."""

    def __init__(
        self, transaction: Transaction, queues: Sequence[str] | None, context: ClaimContext, *, suspects: bool
    ) -> None:
        self.transaction = transaction
        self.context = context
        self.queues = queues
        self.gravities = GRAVITIES if suspects else LIGHT
        self.without: Collection[str] = ()
        self._garbled: list[int] = []

    def __call__(self, most: int, without: Collection[str], /) -> Sequence[Candidate]:
        self.without = without
        if self.context.garbled:
            self._end_those_in_garbled_queues()
        while True:
            found = self._look(most)
            if not self._garbled:
                self.transaction.ledger.count_held({use.key for job in found for use in job.uses})
                return found
            for seq in self._garbled:
                self.transaction.end_garbled(seq)
            self._garbled.clear()
            self.transaction.admission.offer()

    def are_there(self, threads: int | None) -> bool:
        """Whether a claim would find anything. Changes nothing."""
        self.without = () if threads is None or threads > 0 else self.context.threaded
        return bool(self.context.garbled or self._look(1) or self._garbled)

    def _end_those_in_garbled_queues(self) -> None:
        for grave in (*self.gravities, 0):
            for (queue,) in self.transaction.execute(sql("ready_queues"), (grave,)).fetchall():
                if isinstance(queue, bytes):
                    for (seq,) in self.transaction.execute(sql("ready_in"), (queue, grave)).fetchall():
                        self.transaction.end_garbled(seq)
        self.transaction.admission.offer()

    def _look(self, most: int) -> list[Candidate]:
        ledger = self.transaction.ledger
        if ledger.suspected:
            ledger.flush()
        else:
            ledger.write_decided()
        if not (self.context.suspects or self.context.aside or ledger.suspected):
            return self._look_in(most, [], (), ())
        suspects = self._suspects(most)
        grave = [job for job in suspects if job.suspicion >= GRAVE][:most]
        light = sorted((job for job in suspects if job.suspicion < GRAVE), key=_order)
        return self._look_in(most, grave, light, self._aside(0))

    def _look_in(
        self,
        most: int,
        found: list[Candidate],
        light: Sequence[Candidate],
        aside: Sequence[Aside],
    ) -> list[Candidate]:
        if self.queues is None:
            return found + self._first(self._all(aside, light), aside, light, most - len(found))
        for name in self._in_order(self.queues):
            if len(found) < most:
                found += self._first([name], aside, light, most - len(found))
        return found

    def _in_order(self, queues: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(queues) if name not in self.context.paused]

    def _all(self, aside: Sequence[Aside], suspects: Sequence[Candidate]) -> list[str]:
        offered = {queue for queue, _ in self.transaction.ledger.offered_now()}
        names = {
            *self._filled(),
            *offered,
            *(queue for queue, _, _ in aside),
            *(job.queue for job in suspects),
        }
        return sorted(names - self.context.paused)

    def _filled(self) -> frozenset[str]:
        """The queues that may have ready jobs in the file: had some when the exchange began, or got some since."""
        return self.context.ready | self.transaction.ledger.filled

    def _first(
        self,
        queues: Sequence[str],
        aside: Sequence[Aside],
        suspects: Sequence[Candidate],
        most: int,
    ) -> list[Candidate]:
        """The first of what is written as ready, what others set aside, and what this transaction has offered."""
        filled = self._filled()
        lines = [self._read("claimable", queue, most, 0) for queue in queues if queue in filled]
        if aside:
            lines += self._read_aside(aside, queues, most, 0)
        lines += [
            sorted(offers, key=_order)
            for queue, offers in self.transaction.ledger.offered_now()
            if queue in queues
        ]
        if suspects:
            lines.append([job for job in suspects if job.queue in queues])
        return _merged(lines, most)

    def _read(self, statement: str, *bindings: object) -> list[Candidate]:
        found: list[Candidate] = []
        for row in self.transaction.execute(sql(statement), bindings).fetchall():
            try:
                found.append(self.transaction.ledger.claimable(row))
            except GARBLED:
                self._garbled.append(row[0])
        return found

    def _aside(self, grave: int) -> list[Aside]:
        """Jobs that were set aside and are worth another look; rarely any."""
        if not self.context.aside:
            return []
        return [
            (queue, task, why)
            for why in (UNKNOWN_TASK, NO_THREAD)
            for queue, task in self.transaction.execute(sql("aside_tasks"), (grave, why)).fetchall()
            if (why == NO_THREAD or task in self.context.known) and task not in self.without
        ]

    def _read_aside(
        self, aside: Iterable[Aside], queues: Collection[str], most: int, grave: int
    ) -> list[list[Candidate]]:
        lines: list[list[Candidate]] = []
        for queue, task, why in aside:
            if queue in queues:
                line = self._read("claimable_aside", queue, task, most, grave, why)
                for job in line:
                    job.set_aside = True
                lines.append(line)
        return lines

    # ── suspects (rule 15) ───────────────────────────────────────────────────────────────────────────────────────

    def _suspects(self, most: int) -> list[Candidate]:
        """The gravest suspects, as far as the worker has room for them. What it cannot start will be set aside."""
        found: list[Candidate] = []
        aside = {grave: self._aside(grave) for grave in self.gravities}
        for queues in self._groups(pair for pairs in aside.values() for pair in pairs):
            line: list[Candidate] = []
            for grave in self.gravities:
                line += self._suspects_of(queues, aside[grave], most, grave)
            found += line[:most]
        found.sort(key=lambda job: -gravity(job.suspicion))
        if not found:
            return found
        able = set(self.context.known).difference(self.without)
        fit = set(self._room().first(job for job in found if job.task in able))
        return [job for job in found if job in fit or job.task not in able]

    def _suspects_of(
        self, queues: Collection[str], aside: Sequence[Aside], most: int, grave: int
    ) -> list[Candidate]:
        lines = [self._read("claimable", queue, most, grave) for queue in queues]
        return _merged(lines + self._read_aside(aside, queues, most, grave), most)

    def _groups(self, aside: Iterable[Aside]) -> list[Collection[str]]:
        """Queues that are read as one line, in the order in which they are read."""
        if self.queues is not None:
            return [[name] for name in self._in_order(self.queues)]
        queues = [
            self.transaction.execute(sql("ready_queues"), (grave,)).fetchall() for grave in self.gravities
        ]
        names = {queue for rows in queues for (queue,) in rows if isinstance(queue, str)}
        return [sorted({*names, *(queue for queue, _, _ in aside)} - self.context.paused)]

    def _room(self) -> Room:
        running = self.transaction.execute(sql("running_suspects"), (self.context.worker,)).fetchall()
        levels = [level(Suspect(*row), self.transaction.now) for row in running]
        return Room(self.context.concurrency, levels)


def _merged(lines: Iterable[list[Candidate]], most: int) -> list[Candidate]:
    some = [line for line in lines if line]
    return some[0][:most] if len(some) == 1 else list(islice(merge(*some, key=_order), most))
