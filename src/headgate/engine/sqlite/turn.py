"""The beginning and the end of an exchange: one statement each for all that every exchange asks."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from headgate.engine.sqlite.connection import Connection, Values
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.step import Step
from headgate.errors import LeaseLost

_read_names = lru_cache(1000)(msgspec.json.Decoder(frozenset[str]).decode)
_read_ids = msgspec.json.Decoder(tuple[str, ...]).decode


class Turn(msgspec.Struct, frozen=True):
    """What a worker may claim: jobs of the tasks it knows, not from paused queues; `aside` if any are set aside.

    `ready` are the queues that had ready jobs when the turn began.
    """

    known: frozenset[str]
    paused: frozenset[str]
    aside: bool
    ready: frozenset[str]


class Opening:
    """The first statement of an exchange's transaction, which tells the version of the rules among other things."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._row: Values = ()

    def __call__(self, connection: Connection) -> int:
        self._row = connection.execute(sql("turn"), (self.worker,)).fetchall()[0]
        return self._row[0]

    def turn(self, now: int) -> Turn:
        """Raises LeaseLost if the worker's lease is not good."""
        _, lease_until, tasks, paused, aside, ready = self._row
        if lease_until is None or lease_until <= now:
            raise lapsed(self.worker)
        return Turn(_read_names(tasks), _read_names(paused), bool(aside), _read_names(ready))


def end_turn(step: Step, worker: str) -> tuple[tuple[str, ...], int | None]:
    """The jobs of the worker that were asked to stop, and when a sweep will next have work."""
    cancelling, *times = step.execute(sql("turned"), (worker,)).fetchall()[0]
    return _read_ids(cancelling), min((time for time in times if time is not None), default=None)


def lapsed(worker: str) -> LeaseLost:
    """What a worker without a lease is told."""
    return LeaseLost(f"the lease of worker {worker!r} has lapsed; what it ran is no longer its own")
