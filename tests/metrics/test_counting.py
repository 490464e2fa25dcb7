# pyright: reportRedeclaration=false
from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from headgate import App, CancelJob, ConfigError, FailJob, Retry, RetryLater, Snooze
from headgate.metrics import instrument
from headgate.metrics.catalogue import METRICS, Metric
from headgate.metrics.counting import Counting
from headgate.testing import Clock
from headgate.worker import Event
from tests.metrics.conftest import Numbers
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "succeeded"),
        (FailJob("no"), "failed"),
        (ValueError("no"), "failed"),
        (RetryLater(delay=60), "retried"),
        (Snooze(delay=60), "snoozed"),
        (CancelJob(), "cancelled"),
    ],
    ids=["none", "fail", "error", "retry", "snooze", "cancel"],
)
async def test_every_end_of_an_attempt_is_counted_once_under_its_name(
    app: App, numbers: Numbers, error: BaseException | None, outcome: str
):
    @app.task(queue="email", retry=Retry(attempts=2) if isinstance(error, RetryLater) else None)
    async def work() -> None:
        if error is not None:
            raise error

    await work.enqueue()
    await app.run_until_idle()
    job = {"task": "work", "queue": "email"}
    assert numbers("headgate_jobs_enqueued_total", **job) == 1
    assert numbers("headgate_attempts_started_total", **job) == 1
    assert numbers("headgate_attempts_ended_total", **job, outcome=outcome) == 1
    assert len(numbers.labels("headgate_attempts_ended_total")) == 1
    assert numbers("headgate_attempt_duration_seconds_count", **job) == 1
    assert numbers("headgate_worker_running") == 0
    assert numbers("headgate_worker_concurrency") == 0


async def test_the_time_until_a_start_is_measured_from_when_the_job_was_due(
    app: App, numbers: Numbers, clock: Clock
):
    @app.task
    async def work() -> None: ...

    await work.options(delay=10).enqueue()
    clock.advance(15)
    await app.run_until_idle()
    job = {"task": "work", "queue": "default"}
    assert numbers("headgate_attempt_waiting_seconds_sum", **job) == pytest.approx(5, abs=0.5)
    assert numbers("headgate_attempt_waiting_seconds_bucket", **job, le="2.5") == 0
    assert numbers("headgate_attempt_waiting_seconds_bucket", **job, le="10.0") == 1


async def test_exchanges_are_counted_with_their_sizes_and_times(app: App, numbers: Numbers):
    @app.task
    async def work() -> None: ...

    await app.enqueue_many([work.job() for _ in range(7)])
    await app.run_until_idle()
    assert numbers("headgate_exchange_claimed_jobs_sum") == 7
    assert numbers("headgate_exchange_reported_outcomes_sum") == 7
    exchanges = numbers("headgate_exchange_duration_seconds_count")
    assert exchanges is not None
    assert exchanges >= 2
    assert numbers("headgate_exchange_claimed_jobs_count") == exchanges


async def test_a_worker_at_work_shows_its_places_and_what_runs(app: App, numbers: Numbers):
    running, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        running.set()
        await go_on.wait()

    async with app.worker(concurrency=7):
        await work.enqueue()
        await asyncio.wait_for(running.wait(), 30)
        assert numbers("headgate_worker_concurrency") == 7
        assert numbers("headgate_worker_running") == 1
        go_on.set()
        await until(lambda: numbers("headgate_worker_running") == 0)
    assert numbers("headgate_worker_concurrency") == 0


async def test_lost_leases_and_lost_attempts_are_counted():
    """The lease lapses in the store while the worker still runs: the clock of the store is moved."""
    clock, registry = Clock(), CollectorRegistry()
    app, numbers, running = App("memory://", clock=clock), Numbers(registry), asyncio.Event()
    instrument(app, registry)

    @app.task
    async def work() -> None:
        running.set()
        await asyncio.sleep(3600)

    async with app, app.worker(grace=0, lease=15):
        await work.enqueue()
        await asyncio.wait_for(running.wait(), 30)
        clock.advance(16)
        await until(lambda: numbers("headgate_leases_lost_total") == 1)
        lost = {"task": "work", "queue": "default", "outcome": "lost"}
        assert numbers("headgate_attempts_ended_total", **lost) == 1
        await until(lambda: numbers("headgate_lost_attempts_total") == 1)


def test_what_workers_tell_of_their_business_is_counted():
    counted: dict[tuple[str, ...], float] = {}

    def record(metric: Metric, labels: tuple[str, ...]):
        def take(value: float) -> None:
            key = metric.name, *labels
            counted[key] = counted.get(key, 0) + value

        return take

    counting = Counting(record)
    for kind in ("beat", "fenced", "unavailable", "recovered", "resumed", "overrun", "blocked", "idle"):
        counting.business(Event(kind))
    counting.business(Event("swept", {"found": True, "lost": 3}))
    counting.business(Event("rechecked", {"healed": ("one", "two")}))
    refused = {"seconds": 0.5, "claimed": 1, "reported": 2, "parked": (("customer", 4), ("task:send", 1))}
    counting.business(Event("exchanged", refused))
    assert counted == {
        ("headgate_lease_renewals_total",): 1,
        ("headgate_leases_lost_total",): 1,
        ("headgate_store_outages_total",): 1,
        ("headgate_store_reconnects_total",): 1,
        ("headgate_resumptions_total",): 1,
        ("headgate_attempts_overrun_total",): 1,
        ("headgate_loop_blocks_total",): 1,
        ("headgate_lost_attempts_total",): 3,
        ("headgate_store_mended_total",): 2,
        ("headgate_exchange_duration_seconds",): 0.5,
        ("headgate_exchange_claimed_jobs",): 1,
        ("headgate_exchange_reported_outcomes",): 2,
        ("headgate_limit_refusals_total", "customer"): 4,
        ("headgate_limit_refusals_total", "task:send"): 1,
    }


def test_labels_are_names_from_code_and_never_ids_keys_or_tenants():
    assert {label for metric in METRICS for label in metric.labels} == {
        "task", "queue", "outcome", "limit", "state",
    }  # fmt: skip


def test_a_registry_that_counts_for_another_app_is_refused():
    registry = CollectorRegistry()
    instrument(App("memory://"), registry)
    with pytest.raises(ConfigError, match="give each app a registry of its own"):
        instrument(App("memory://"), registry)


def test_without_a_registry_the_one_of_the_client_is_used():
    program = (
        "from prometheus_client import REGISTRY\nfrom headgate import App\nfrom headgate.metrics import instrument\n"
        "instrument(App('memory://'))\nassert REGISTRY.get_sample_value('headgate_leases_lost_total') == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert REGISTRY.get_sample_value("headgate_leases_lost_total") is None


def test_without_the_extra_all_works_until_metrics_are_asked_for():
    program = (
        "import importlib.util as util\nutil.find_spec = lambda name: None\nfrom headgate import App, ConfigError\n"
        "from headgate.metrics import instrument\napp = App('memory://')\napp.run_until_idle_sync()\n"
        "try: instrument(app)\nexcept ConfigError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "metrics for Prometheus need its client: pip install 'headgate[prometheus]'\n"
