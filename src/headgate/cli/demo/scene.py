"""What can be seen at one moment of the demonstration: from the journal, and from the store as any operator sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import msgspec

from headgate.cli.demo.journal import Entry
from headgate.cli.demo.workload import CUSTOMERS, MAIL_PERIOD, PER_CUSTOMER

if TYPE_CHECKING:
    from headgate.app.app import App

Cell = Literal["todo", "running", "retry", "dead", "done"]
Tone = Literal["plain", "good", "bad", "note"]


class Event(msgspec.Struct, frozen=True):
    """Something worth telling."""

    at: float
    text: str
    tone: Tone = "plain"


class ShownWorker(msgspec.Struct, frozen=True):
    """A worker as it is shown."""

    name: str
    pid: int
    state: Literal["starting", "working", "killed", "stopped"]
    running: int


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One moment. `customers` are the jobs of each customer in their order; `mails` the starts of the last period."""

    seconds: float
    customers: tuple[tuple[Cell, ...], ...]
    counts: dict[str, int]
    api_held: int
    api_waiting: int
    mails: int
    mails_waiting: int
    retried: int
    workers: tuple[ShownWorker, ...]
    events: tuple[Event, ...]

    @property
    def done(self) -> int:
        """How many jobs have succeeded."""
        return self.counts["succeeded"]


class CustomerRows:
    """What each job is doing, by the journal."""

    def __init__(self) -> None:
        self.open: dict[str, Entry] = {}
        self.mails: list[float] = []
        self.failed = 0
        self._cells: list[list[Cell]] = [["todo"] * PER_CUSTOMER for _ in range(CUSTOMERS)]

    def add(self, entry: Entry) -> None:
        """Take up one entry."""
        cells = self._cells[entry.customer]
        if entry.what == "start":
            self.open[entry.job] = entry
            cells[entry.number] = "running"
            if entry.task == "send_invoice":
                self.mails.append(entry.at)
            return
        self.open.pop(entry.job, None)
        self.failed += entry.what == "fail"
        cells[entry.number] = "done" if entry.what == "end" else "retry"

    def running_on(self, pid: int) -> list[Entry]:
        """The runs that a process has begun and not ended."""
        return [entry for entry in self.open.values() if entry.pid == pid]

    def cells(self, dead: frozenset[int]) -> tuple[tuple[Cell, ...], ...]:
        """A copy; what a dead process had begun is marked."""
        customers = [list(row) for row in self._cells]
        for entry in self.open.values():
            if entry.pid in dead:
                customers[entry.customer][entry.number] = "dead"
        return tuple(tuple(row) for row in customers)

    def mails_now(self) -> int:
        """How many mails were started in the last period."""
        since = time.monotonic() - MAIL_PERIOD
        return sum(at > since for at in self.mails[-50:])


class Numbers(msgspec.Struct, frozen=True):
    """What the store says."""

    counts: dict[str, int]
    api: tuple[int, int]
    mails_waiting: int
    running: dict[str, int]


def ask(app: App, total: int) -> Numbers:
    """Ask the store what any operator can ask."""
    queues = app.queues_sync()
    counts = {
        name: sum(getattr(q, name) for q in queues) for name in ("scheduled", "ready", "waiting", "running")
    }
    counts["failed"] = app.count_sync(state=("failed", "cancelled"))
    counts["succeeded"] = total - sum(counts.values())
    api, mail = app.limits_sync("api"), app.limits_sync("mail")
    return Numbers(
        counts,
        (max((one.held for one in api), default=0), max((one.waiting for one in api), default=0)),
        max((one.waiting for one in mail), default=0),
        {worker.id: worker.running for worker in app.workers_sync()},
    )
