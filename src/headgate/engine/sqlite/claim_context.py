"""The beginning and the end of an exchange: one statement each for all that every exchange asks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from headgate.engine.rules.refused import lapsed, stale
from headgate.engine.sqlite.connection import Connection, Values
from headgate.engine.sqlite.garbled import shown
from headgate.engine.sqlite.rows import GARBLED
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Claims, Transaction

_read_names = lru_cache(1000)(msgspec.json.Decoder(frozenset[str]).decode)
_read_ids = msgspec.json.Decoder(tuple[str, ...]).decode


def _readable(lease_until: object, number: object, tasks: str, concurrency: object, threaded: str) -> bool:
    """Whether a worker's row makes sense."""
    try:
        _read_names(tasks)
        _read_names(threaded)
    except GARBLED:
        return False
    return type(lease_until) is int and type(number) is int and type(concurrency) is int


def unreadable_workers(transaction: Transaction) -> list[Any]:
    """Workers whose rows cannot be read (an id may be bytes): lost, since none of their exchanges is answered."""
    rows = transaction.execute(sql("worker_rows")).fetchall()
    return [
        id for id, queues, lease, *row in rows
        if isinstance(id, bytes) or type(lease) is not int or not _readable(*row) or not _readable_names(queues)
    ]  # fmt: skip


def _readable_names(names: str | None) -> bool:
    try:
        return names is None or bool(_read_ids(names) or True)
    except GARBLED:
        return False


class Own:
    """What this process remembers of a worker of its own: what it has claimed, and the number of its last message.

    The messages of a worker come through one engine, so it suffices to remember the number here; only `resume_worker`
    writes it down. Otherwise each exchange would pay a statement, and each look for work would wake other processes.
    """

    __slots__ = ("claims", "number")

    def __init__(self) -> None:
        self.claims: Claims = {}
        self.number = 0


class ClaimContext(msgspec.Struct, frozen=True):
    """What a worker may claim: jobs of the tasks it knows, not from paused queues. `aside` if any are set aside,
    `suspects` if any job is suspect.

    `ready` are the queues that had ready jobs when the exchange began; `garbled` says that the name of one is no text.
    """

    worker: str
    known: frozenset[str]
    threaded: frozenset[str]
    concurrency: int
    paused: frozenset[str]
    aside: bool
    suspects: bool
    ready: frozenset[str]
    garbled: bool = False


class Opening:
    """The first statement of an exchange's transaction, which tells the version of the rules among other things."""

    __slots__ = ("_before", "_row", "number", "own", "worker")

    def __init__(self, worker: str, number: int | None, own: Own) -> None:
        self.worker = worker
        self.number = number
        self.own = own
        self._row: Values = ()
        self._before: int | None = None

    def __call__(self, connection: Connection) -> int:
        if self._before is None:
            self._before = self.own.number
        elif self.own.number > self._before:
            # This message and those after it were undone with the group that they were in, and are tried again.
            self.own.number = self._before
        self._row = connection.execute(sql("begin_exchange"), (self.worker,)).fetchall()[0]
        return self._row[0]

    def context(self, now: int) -> ClaimContext:
        """Raises LeaseLost if the worker's lease is not good, StaleMessage if a later message has overtaken it."""
        _, lease_until, last, tasks, concurrency, threaded, paused, aside, suspects, ready = self._row
        if lease_until is None or not _readable(*self._row[1:6]) or lease_until <= now:
            raise lapsed(self.worker)
        if self.number is not None and self.number <= (last := max(last, self.own.number)):
            raise stale(self.worker, self.number, last)
        known = _read_names(tasks)
        return ClaimContext(
            self.worker, known, known & _read_names(threaded), concurrency, _read_names(shown(paused)), bool(aside),
            bool(suspects), _read_names(shown(ready)), isinstance(ready, bytes),
        )  # fmt: skip

    def take_effect(self) -> None:
        """From now on older messages are refused. Where the transaction is undone, its number stays used, which does no
        harm: the worker's next one is larger."""
        if self.number is not None:
            self.own.number = self.number


def end_exchange(transaction: Transaction, worker: str) -> tuple[tuple[str, ...], int | None]:
    """The jobs of the worker that were asked to stop, and when a sweep will next have work."""
    cancelling, *times = transaction.execute(sql("end_exchange"), (worker,)).fetchall()[0]
    times.append(transaction.book.next_term)
    return _read_ids(shown(cancelling)), min((time for time in times if time is not None), default=None)
