"""Every metric there is: its name, its labels, what it counts. Recorders, docs, dashboards and alerts follow this list.

Labels are names from code (tasks, queues, limits) and words from here: as many series as a program has names, however
many jobs, keys and tenants there are.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "histogram", "updown", "reading"]
"""`updown` goes up and down with what a process does; a `reading` is what the store says when it is asked."""


class Metric(NamedTuple):
    """One metric. `name` is that of Prometheus; `unit` that of OpenTelemetry (UCUM), in braces where something is
    counted: what is dimensionless, an exporter to Prometheus would call a ratio."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    unit: str
    buckets: tuple[float, ...] = ()


LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
"""Seconds of work and of waiting: from what is done at once to what takes an hour."""
SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Seconds of one round trip."""
BATCH = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Jobs of one round trip."""

JOB = ("task", "queue")

JOBS_ENQUEUED = Metric(
    "headgate_jobs_enqueued_total", "counter", "Jobs that this process has enqueued.", JOB, "{job}"
)
ATTEMPTS_STARTED = Metric("headgate_attempts_started_total", "counter", "Attempts begun.", JOB, "{attempt}")
ATTEMPTS_ENDED = Metric(
    "headgate_attempts_ended_total",
    "counter",
    "Attempts ended, by outcome: succeeded, failed, retried, snoozed, throttled, cancelled, released, lost.",
    (*JOB, "outcome"),
    "{attempt}",
)
ATTEMPT_DURATION = Metric(
    "headgate_attempt_duration_seconds", "histogram", "How long attempts ran.", JOB, "s", LONG
)
ATTEMPT_WAITING = Metric(
    "headgate_attempt_waiting_seconds",
    "histogram",
    "How long attempts waited from when they were due to their start.",
    JOB,
    "s",
    LONG,
)
JOBS_FAILED_BY_LOSS = Metric(
    "headgate_jobs_failed_by_loss_total",
    "counter",
    "Jobs that failed because they were lost with their workers too often.",
    ("task",),
    "{job}",
)
LOST_ATTEMPTS = Metric(
    "headgate_lost_attempts_total",
    "counter",
    "Attempts that were lost with a worker whose lease lapsed or whose process died.",
    (),
    "{attempt}",
)
WORKER_CONCURRENCY = Metric(
    "headgate_worker_concurrency", "updown", "How many jobs the workers can run at once.", (), "{job}"
)
WORKER_RUNNING = Metric(
    "headgate_worker_running", "updown", "How many attempts the workers run.", (), "{attempt}"
)
ATTEMPTS_OVERRUN = Metric(
    "headgate_attempts_overrun_total",
    "counter",
    "Attempts in threads that ran on after their timeout, and kept their slots.",
    (),
    "{attempt}",
)
EXCHANGE_DURATION = Metric(
    "headgate_exchange_duration_seconds",
    "histogram",
    "How long the store took to settle and claim.",
    (),
    "s",
    SHORT,
)
EXCHANGE_CLAIMED = Metric(
    "headgate_exchange_claimed_jobs", "histogram", "Jobs claimed by one exchange.", (), "{job}", BATCH
)
EXCHANGE_REPORTED = Metric(
    "headgate_exchange_reported_outcomes",
    "histogram",
    "Outcomes and progress reported by one exchange.",
    (),
    "{report}",
    BATCH,
)
LIMIT_REFUSALS = Metric(
    "headgate_limit_refusals_total",
    "counter",
    "Jobs that a limit refused when a worker would have started them; they wait for it since.",
    ("limit",),
    "{job}",
)
LEASE_RENEWALS = Metric("headgate_lease_renewals_total", "counter", "Leases renewed.", (), "{renewal}")
LEASES_LOST = Metric(
    "headgate_leases_lost_total", "counter", "Leases that a worker lost while it was alive.", (), "{lease}"
)
STORE_OUTAGES = Metric(
    "headgate_store_outages_total", "counter", "Times at which the store stopped to answer.", (), "{outage}"
)
STORE_RECONNECTS = Metric(
    "headgate_store_reconnects_total", "counter", "Times at which it answered again.", (), "{reconnect}"
)
RESUMPTIONS = Metric(
    "headgate_resumptions_total",
    "counter",
    "Messages after a doubt, by which worker and store agree on what runs.",
    (),
    "{message}",
)
LOOP_BLOCKS = Metric(
    "headgate_loop_blocks_total", "counter", "Times at which a job blocked the event loop.", (), "{block}"
)
STORE_MENDED = Metric(
    "headgate_store_mended_total",
    "counter",
    "What rechecks had to mend in the store: each is a defect to be reported.",
    (),
    "{defect}",
)

STORE_UP = Metric(
    "headgate_store_up", "reading", "1 if the store could be read just now, else 0.", (), "{store}"
)
QUEUE_JOBS = Metric(
    "headgate_queue_jobs",
    "reading",
    "Unfinished jobs: scheduled, ready, waiting (for a limit), running.",
    ("queue", "state"),
    "{job}",
)
QUEUE_OLDEST = Metric(
    "headgate_queue_oldest_ready_seconds",
    "reading",
    "For how long the oldest ready job has been due; 0 without any.",
    ("queue",),
    "s",
)
QUEUE_PAUSED = Metric(
    "headgate_queue_paused", "reading", "1 while the queue is paused.", ("queue",), "{queue}"
)
LIMIT_MAX = Metric(
    "headgate_limit_max",
    "reading",
    "The number in force for each key of a limit that has none of its own; absent where nothing limits.",
    ("limit",),
    "{place}",
)
LIMIT_USED = Metric(
    "headgate_limit_used",
    "reading",
    "Slots held, of all keys of a limit together; counted up to about a thousand.",
    ("limit",),
    "{slot}",
)
LIMIT_WAITING = Metric(
    "headgate_limit_waiting",
    "reading",
    "Jobs that wait on any key of a limit; counted up to about a thousand.",
    ("limit",),
    "{job}",
)

METRICS: tuple[Metric, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
READINGS = tuple(metric for metric in METRICS if metric.kind == "reading")
RECORDED = tuple(metric for metric in METRICS if metric.kind != "reading")
