"""What happens in the demonstration, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from headgate.cli.demo.journal import Entry, Reader
from headgate.cli.demo.scene import CustomerRows, Event, Numbers, Scene, ShownWorker, Tone, ask
from headgate.cli.demo.tasks import app
from headgate.cli.demo.worker_process import WorkerProcess
from headgate.cli.demo.workload import CUSTOMERS, LEASE, TOTAL, Order, orders
from headgate.errors import HeadgateError
from headgate.job import NewJob

TICK = 0.1
LONGEST_PLAY = 60.0
TOLD_FAILURES = 3


class Story:
    """`scenes()` plays it; afterwards `processes`, `reader` and `ids` are what the proof needs."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'demo.db'}"
        self.reader = Reader(str(folder / "journal.jsonl"))
        self.processes: list[WorkerProcess] = []
        self.ids: list[str] = []
        self.events: list[Event] = []
        self.recovered_at: float | None = None
        self.folder = folder
        self._customers = CustomerRows()
        self._numbers = Numbers({"succeeded": 0}, (0, 0), 0, {})
        self._began = time.monotonic()
        self._cut: dict[str, Entry] = {}

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def scenes(self) -> Iterator[Scene]:
        """Play it, one scene every tenth of a second, until all jobs have ended."""
        app.redirect(self.url)
        with app:
            self._enqueue()
            self._hire()
            try:
                yield from self._watch()
            finally:
                for process in self.processes:
                    process.stop()
            yield self._scene()

    def _enqueue(self) -> None:
        began = time.perf_counter()
        jobs = [_job(order) for order in orders()]
        self.ids = [handle.id for handle in app.enqueue_many_sync(jobs)]
        took = (time.perf_counter() - began) * 1000
        self._tell(f"{TOTAL} jobs of {CUSTOMERS} customers enqueued in {took:.0f} ms, due in eight waves")

    def _hire(self) -> None:
        journal = self.folder / "journal.jsonl"
        self.processes = [WorkerProcess(name, self.folder, self.url, journal) for name in ("A", "B")]
        pids = " and ".join(str(process.pid) for process in self.processes)
        self._tell(f"two worker processes started: A and B (pids {pids})")

    def _watch(self) -> Iterator[Scene]:
        due = time.monotonic()
        while not self._over():
            self._look()
            if self._ripe():
                self._kill()
            yield self._scene()
            now = time.monotonic()
            due = max(due + TICK, now)
            time.sleep(due - now)
        self._look()
        self._tell(f"all {TOTAL} jobs have ended; worker A is told to stop", "good")

    def _over(self) -> bool:
        if self.seconds > LONGEST_PLAY:
            raise HeadgateError(f"the demonstration did not end within {LONGEST_PLAY:g} seconds")
        if not self.processes[0].alive:
            raise HeadgateError(f"worker A ended unexpectedly:\n{self.processes[0].log.read_text()[-2000:]}")
        ended = self._numbers.counts["succeeded"] + self._numbers.counts.get("failed", 0)
        return ended == TOTAL

    def _look(self) -> None:
        for entry in self.reader.follow():
            self._customers.add(entry)
            self._notice(entry)
        self._numbers = ask(app, TOTAL)
        self._notice_recovery()

    def _notice(self, entry: Entry) -> None:
        if entry.what == "fail" and self._customers.failed <= TOLD_FAILURES:
            self._tell(
                f"a job of customer {entry.customer + 1} failed and will be retried: the API hung up", "bad"
            )
        if entry.what == "start" and self._cut.pop(entry.job, None) and self.recovered_at is None:
            self.recovered_at = entry.at
            wait = entry.at - (self.processes[1].killed_at or 0)
            self._tell(f"{wait:.1f} s after the kill the first of them runs again, on worker A", "good")

    def _notice_recovery(self) -> None:
        victim = self.processes[1]
        if (
            victim.killed_at is not None
            and not self._known(victim)
            and not any("lapsed" in e.text for e in self.events)
        ):
            self._tell(
                f"B's lease of {LEASE:g} s has lapsed: its slots are free, its jobs in line",
                "note",
            )

    def _ripe(self) -> bool:
        """Half-way, at a moment at which the victim is busy."""
        victim, done = self.processes[1], self._numbers.counts["succeeded"]
        if victim.killed_at is not None or done < TOTAL * 0.4:
            return False
        running = self._customers.running_on(victim.pid)
        return len(running) >= 3 or (bool(running) and done > TOTAL * 0.6)

    def _kill(self) -> None:
        victim = self.processes[1]
        victim.kill()
        for entry in self.reader.follow():
            self._customers.add(entry)
        self._cut = {entry.job: entry for entry in self._customers.running_on(victim.pid)}
        self._tell(f"kill -9 of worker B (pid {victim.pid}) with {len(self._cut)} jobs running on it", "bad")

    def _tell(self, text: str, tone: Tone = "plain") -> None:
        self.events.append(Event(self.seconds, text, tone))

    def _scene(self) -> Scene:
        dead = frozenset(process.pid for process in self.processes if process.killed_at is not None)
        return Scene(
            seconds=self.seconds,
            customers=self._customers.cells(dead),
            counts=dict(self._numbers.counts),
            api_held=self._numbers.api[0],
            api_waiting=self._numbers.api[1],
            mails=self._customers.mails_now(),
            mails_waiting=self._numbers.mails_waiting,
            retried=self._customers.failed,
            workers=tuple(self._worker(process) for process in self.processes),
            events=tuple(self.events),
        )

    def _worker(self, process: WorkerProcess) -> ShownWorker:
        running = len(self._customers.running_on(process.pid))
        if process.killed_at is not None:
            return ShownWorker(process.name, process.pid, "killed", running)
        if not process.alive:
            return ShownWorker(process.name, process.pid, "stopped", 0)
        return ShownWorker(
            process.name, process.pid, "working" if self._known(process) else "starting", running
        )

    def _known(self, process: WorkerProcess) -> bool:
        """Whether the store lists it; a worker's id begins with its name."""
        return any(id.rpartition("-")[0] == process.name for id in self._numbers.running)


def _job(order: Order) -> NewJob:
    task = app.tasks[order.task].options(delay=order.delay)
    return task.job(customer=order.customer, number=order.number, seconds=order.seconds, fails=order.fails)
