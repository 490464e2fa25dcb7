"""From what an app and its workers tell to numbers: one listener, whatever the numbers are recorded with.

A recorder is a function that gives, for a metric and the values of its labels, the function that takes a number: the
`inc` of a Prometheus counter, the `add` of an OpenTelemetry instrument. It is asked once for each; from then on an
event costs a look into a dict and the calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.hooks import JobEvent, WorkerEvent
from headgate.metrics import catalogue
from headgate.metrics.catalogue import Metric

if TYPE_CHECKING:
    from headgate import App
    from headgate.worker import Event

Take = Callable[[float], Any]
Recorder = Callable[[Metric, tuple[str, ...]], Take]
Job = tuple[str, str | None]

ENDS = ("succeeded", "failed", "retried", "snoozed", "throttled", "cancelled", "released", "lost")


class Started(NamedTuple):
    """Where the starts of one task go."""

    begun: Take
    waiting: Take


class Ended(NamedTuple):
    """Where one kind of end of one task goes."""

    over: Take
    duration: Take


class Counting:
    """Listens to one app and its workers."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._enqueued: dict[Job, Take] = {}
        self._started: dict[Job, Started] = {}
        self._ended: dict[tuple[str, str, str | None], Ended] = {}
        self._running = record(catalogue.WORKER_RUNNING, ())
        self._concurrency = record(catalogue.WORKER_CONCURRENCY, ())
        self._refusals: dict[str, Take] = {}
        self._exchange_duration = record(catalogue.EXCHANGE_DURATION, ())
        self._claimed = record(catalogue.EXCHANGE_CLAIMED, ())
        self._reported = record(catalogue.EXCHANGE_REPORTED, ())
        self._lost = record(catalogue.LOST_ATTEMPTS, ())
        self._mended = record(catalogue.STORE_MENDED, ())
        self._plain = {
            kind: record(metric, ())
            for kind, metric in (
                ("beat", catalogue.LEASE_RENEWALS),
                ("fenced", catalogue.LEASES_LOST),
                ("unavailable", catalogue.STORE_OUTAGES),
                ("recovered", catalogue.STORE_RECONNECTS),
                ("resumed", catalogue.RESUMPTIONS),
                ("overrun", catalogue.ATTEMPTS_OVERRUN),
                ("blocked", catalogue.LOOP_BLOCKS),
            )
        }

    def listen_to(self, app: App) -> None:
        """Hear of the jobs and of the workers of an app from now on."""
        app.on("enqueued", self.enqueued)
        app.on("started", self.started)
        app.on(*ENDS)(self.ended)
        app.on("worker_started", "worker_stopped")(self.worker)
        app.on_worker_event(self.business)

    def enqueued(self, event: JobEvent) -> None:
        """A job is new."""
        key = event.task, event.queue
        take = self._enqueued.get(key)
        if take is None:
            take = self._enqueued[key] = self._record(catalogue.JOBS_ENQUEUED, _job(key))
        take(1)

    def started(self, event: JobEvent) -> None:
        """An attempt begins."""
        key = event.task, event.queue
        into = self._started.get(key)
        if into is None:
            count = self._record(catalogue.ATTEMPTS_STARTED, _job(key))
            into = self._started[key] = Started(count, self._record(catalogue.ATTEMPT_WAITING, _job(key)))
        into.begun(1)
        into.waiting(event.waiting or 0.0)
        self._running(1)

    def ended(self, event: JobEvent) -> None:
        """An attempt has ended; or, where it names no attempt, a job has failed by loss."""
        if event.attempt is None:
            self._record(catalogue.JOBS_FAILED_BY_LOSS, (event.task,))(1)
            return
        key = event.name, event.task, event.queue
        into = self._ended.get(key)
        if into is None:
            job = _job(key[1:])
            count = self._record(catalogue.ATTEMPTS_ENDED, (*job, event.name))
            into = self._ended[key] = Ended(count, self._record(catalogue.ATTEMPT_DURATION, job))
        into.over(1)
        if event.duration is not None:
            into.duration(event.duration)
        self._running(-1)

    def worker(self, event: WorkerEvent) -> None:
        """A worker comes or goes."""
        self._concurrency(event.concurrency if event.name == "worker_started" else -event.concurrency)

    def business(self, event: Event) -> None:
        """What a worker tells of its own business."""
        if event.kind == "exchanged":
            self._exchanged(**event.facts)
        elif (take := self._plain.get(event.kind)) is not None:
            take(1)
        elif event.kind == "swept" and (lost := event.facts["lost"]):
            self._lost(lost)
        elif event.kind == "rechecked" and (healed := event.facts["healed"]):
            self._mended(len(healed))

    def _exchanged(
        self, *, seconds: float, claimed: int, reported: int, parked: tuple[tuple[str, int], ...]
    ) -> None:
        self._exchange_duration(seconds)
        self._claimed(claimed)
        self._reported(reported)
        for limit, count in parked:
            take = self._refusals.get(limit)
            if take is None:
                take = self._refusals[limit] = self._record(catalogue.LIMIT_REFUSALS, (limit,))
            take(count)


def _job(key: Job) -> tuple[str, str]:
    return key[0], key[1] or ""
