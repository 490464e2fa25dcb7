from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from headgate import App, CancelJob, ConfigError, FloatingLimit, Retry, RetryLater, Snooze
from headgate.hooks import JobEvent, WorkerEvent
from headgate.hooks.events import JOB_EVENTS
from headgate.testing import Clock
from tests.hooks.conftest import ended
from tests.support.waiting import until


def listening(app: App, *names: str) -> list[JobEvent]:
    """The events of these names, or all about jobs, from now on."""
    events: list[JobEvent] = []
    app.on(*(names or tuple(JOB_EVENTS)))(events.append)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return events


def names(events: list[JobEvent]) -> list[str]:
    return [event.name for event in events]


async def test_a_job_that_succeeds_is_told_of_three_times(app: App, clock):
    @app.task(queue="email")
    async def send(to: str) -> str:
        return to

    events = listening(app)
    job = await send.options(tenant="acme").enqueue("ada")
    clock.advance(3)
    await app.run_until_idle()
    assert names(events) == ["enqueued", "started", "succeeded"]
    enqueued, started, succeeded = events
    for event in events:
        assert (event.job, event.task, event.queue, event.tenant) == (job.id, "send", "email", "acme")
        assert event.exception is event.error is event.retry_in is None
        assert event.confirmed
    assert not enqueued.within_transaction
    assert (enqueued.attempt, started.attempt, succeeded.attempt) == (None, 1, 1)
    assert started.worker == succeeded.worker != ""
    assert started.waiting == succeeded.waiting == 3
    assert started.duration is started.ended_at is None
    assert succeeded.duration is not None
    assert succeeded.started_at is not None
    assert succeeded.ended_at == succeeded.started_at + timedelta(seconds=succeeded.duration)
    info = await job.info()
    assert (info.attempts[0].worker, info.enqueued_at) == (succeeded.worker, succeeded.enqueued_at)


async def test_the_waiting_time_counts_from_when_the_job_was_due(app: App, clock):
    @app.task(retry=Retry(attempts=2, delay=60, jitter=0))
    async def work() -> None:
        raise OSError

    events = listening(app, "started")
    await work.options(delay=30).enqueue()
    clock.advance(32)
    await app.run_until_idle()
    clock.advance(65)
    await app.run_until_idle()
    assert [event.waiting for event in events] == [2, 5]


async def test_the_end_is_told_when_the_store_knows_of_it(app: App):
    states: list[str] = []

    @app.task
    async def work() -> None: ...

    @app.on("succeeded", "started")
    async def look(event: JobEvent) -> None:
        states.append(await app.handle(event.job).status())

    async with app.worker():
        await (await work.enqueue()).result(timeout=20)
    assert states[-1] == "succeeded"


@pytest.mark.parametrize(
    ("error", "name", "retry_in"),
    [
        (ValueError("x"), "failed", None),
        (OSError("x"), "retried", 60),
        (RetryLater(5), "retried", 5),
        (Snooze(7), "snoozed", 7),
        (CancelJob("x"), "cancelled", None),
    ],
)
async def test_each_way_to_end_has_a_name_and_the_exception(app: App, error, name, retry_in):
    @app.task(retry=Retry(attempts=2, delay=60, jitter=0, on=OSError))
    async def work() -> None:
        raise error

    events = listening(app, *JOB_EVENTS - {"enqueued", "started"})
    await work.enqueue()
    await app.run_until_idle()
    assert [(event.name, event.exception, event.retry_in) for event in events] == [(name, error, retry_in)]
    if name in ("failed", "retried"):
        assert (events[0].error or "").startswith((type(error).__name__, "headgate."))


async def test_the_exception_of_a_thread_is_told_like_that_of_a_coroutine(app: App):
    error = ValueError("broken")

    @app.task
    def work() -> None:
        raise error

    events = listening(app, "failed")
    await work.enqueue()
    await app.run_until_idle()
    assert [event.exception for event in events] == [error]


async def test_a_timeout_is_told_as_a_timeout_error(app: App):
    @app.task(timeout=0.05)
    async def work() -> None:
        await asyncio.sleep(3600)

    events = listening(app, "failed")
    await work.enqueue()
    await app.run_until_idle()
    assert [type(event.exception) for event in events] == [TimeoutError]


async def test_arguments_that_do_not_fit_are_a_failure_that_is_told(app: App):
    @app.task
    async def work(n: int) -> None: ...

    events = listening(app, "failed")
    await app.enqueue(msgspec.structs.replace(work.job(1), args='{"n": "one"}'))
    await app.run_until_idle()
    assert names(events) == ["failed"]
    assert events[0].exception is not None


async def test_a_job_that_is_cancelled_or_given_back_is_told(app: App):
    running = asyncio.Event()

    @app.task
    async def work() -> None:
        running.set()
        await asyncio.sleep(3600)

    events = listening(app, "cancelled", "released")
    async with app.worker(grace=0):
        job = await work.enqueue()
        await asyncio.wait_for(running.wait(), 20)
        await job.cancel()
        await until(lambda: bool(events))
        running.clear()
        await work.enqueue()
        await asyncio.wait_for(running.wait(), 20)
    assert names(events) == ["cancelled", "released"]


async def test_only_new_jobs_are_told_as_enqueued(app: App):
    @app.task
    async def work() -> None: ...

    events = listening(app, "enqueued")
    await work.options(unique="one").enqueue()
    await work.options(unique="one").enqueue()
    await app.enqueue_many([work.job(), work.job()])
    at = datetime.now(UTC) + timedelta(hours=1)
    await work.options(at=at).enqueue()
    await app.run_until_idle()
    assert len(events) == 4
    assert events[-1].due == at


async def test_the_ticks_of_a_periodic_task_are_told_as_enqueued(app: App, clock):
    @app.task(every=60)
    async def work() -> None: ...

    events = listening(app, "enqueued", "started")
    await app.run_until_idle()
    clock.advance(60)
    await app.run_until_idle()
    assert names(events) == ["enqueued", "started"]


async def test_the_sync_twin_tells_too(app: App):
    @app.task
    async def work() -> None: ...

    events = listening(app, "enqueued")
    told: list[str] = []

    @app.on("enqueued")
    async def later(event: JobEvent) -> None:
        await asyncio.sleep(0)
        told.append(event.job)

    job = await asyncio.to_thread(work.enqueue_sync)
    assert [event.job for event in events] == told == [job.id]


async def test_a_listener_that_raises_is_logged_and_changes_nothing(app: App, caplog):
    @app.task
    async def work() -> int:
        return 1

    @app.on("enqueued", "started", "succeeded", "worker_started", "worker_stopped")  # pyright: ignore[reportCallIssue, reportArgumentType]
    def broken(event) -> None:
        raise RuntimeError(f"cannot hear {event.name}")

    @app.on("enqueued", "started", "succeeded")
    async def later(event: JobEvent) -> None:
        raise SystemExit(f"cannot hear {event.name} either")

    heard = listening(app)
    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == 1
    assert names(heard) == ["enqueued", "started", "succeeded"], "those that come after it are told"
    lines = [record for record in caplog.records if record.name == "headgate.hooks"]
    assert len(lines) == 5 + 3
    assert all(record.exc_info and "listener" in record.getMessage() for record in lines)


async def test_a_slow_asynchronous_listener_holds_up_no_job_and_hears_all_in_order(app: App):
    gate, heard = asyncio.Event(), []

    @app.task
    async def work(n: int) -> None: ...

    @app.on("succeeded")
    async def slow(event: JobEvent) -> None:
        await gate.wait()
        heard.append(event.job)

    jobs = await app.enqueue_many(work.job(n) for n in range(20))
    async with app.worker(concurrency=1):
        for job in jobs:
            await job.result(timeout=20)
        assert heard == []
        gate.set()
    assert heard == [job.id for job in jobs], "the worker waits for it when it stops"


async def test_a_listener_that_never_ends_does_not_keep_the_worker(app: App, monkeypatch, caplog):
    monkeypatch.setattr("headgate.worker.job_events.LAST_WORDS", 0.05)

    @app.task
    async def work() -> None: ...

    @app.on("succeeded")
    async def forever(event: JobEvent) -> None:
        await asyncio.sleep(3600)

    await app.enqueue_many([work.job(), work.job(), work.job()])
    await asyncio.wait_for(app.run_until_idle(), 20)
    assert "did not end in time; 2 events are dropped" in caplog.text


async def test_a_listener_that_falls_far_behind_loses_what_is_new(app: App, monkeypatch, caplog):
    monkeypatch.setattr("headgate.hooks.delivery.LONGEST_LINE", 2)
    gate, heard = asyncio.Event(), []

    @app.task
    async def work() -> None: ...

    @app.on("succeeded")
    async def slow(event: JobEvent) -> None:
        await gate.wait()
        heard.append(event.job)

    told = listening(app, "succeeded")
    jobs = await app.enqueue_many(work.job() for _ in range(5))
    async with app.worker(concurrency=1):
        await until(lambda: len(told) == 5)  # a result may be known before its end is told
        gate.set()
    assert heard == [job.id for job in jobs[: len(heard)]]
    assert len(heard) in (2, 3)
    assert caplog.text.count("is 2 events behind") == 1


async def test_a_worker_tells_when_it_starts_and_stops(app: App):
    events: list[WorkerEvent] = []
    app.on("worker_started", events.append)
    app.on("worker_stopped", events.append)
    async with app.worker(queues=["email", "default"], concurrency=7, name="mine"):
        assert [event.name for event in events] == ["worker_started"]
    assert [event.name for event in events] == ["worker_started", "worker_stopped"]
    for event in events:
        assert (event.worker, event.queues, event.concurrency) == ("mine", ("email", "default"), 7)


async def test_a_worker_that_lost_its_lease_tells_that_its_jobs_are_lost():
    """The lease lapses in the store while the worker still runs: the clock of the store is moved."""
    clock = Clock()
    app = App("memory://", clock=clock)
    running = asyncio.Event()

    @app.task
    async def work() -> None:
        running.set()
        await asyncio.sleep(3600)

    events = listening(app, "started", "lost", "cancelled", "released")
    async with app:
        async with app.worker(grace=0, lease=15):
            job = await work.enqueue()
            await asyncio.wait_for(running.wait(), 20)
            clock.advance(16)
            await until(lambda: "lost" in names(events))
        lost = next(event for event in events if event.name == "lost")
        assert (lost.job, lost.attempt, lost.exception) == (job.id, 1, None)


async def test_without_listeners_nothing_is_kept(app: App):
    @app.task
    async def work() -> None: ...

    await work.enqueue()
    worker = await app._worker({})
    async with worker:
        await ended(app)
        assert worker._events.jobs._unconfirmed == {}


async def test_floating_limits_refresh_without_a_word(app: App):
    refreshed = []
    there = asyncio.Event()

    @app.floating_limit("llm", default=1, every=60)
    async def llm(limit) -> int:
        refreshed.append(limit.key)
        there.set()
        return 2

    @app.task(limits=[FloatingLimit("llm")])
    async def work() -> None:
        await asyncio.wait_for(there.wait(), 20)  # the key is in use until it is looked at

    events = listening(app)
    await app.enqueue_many([work.job(), work.job()])
    await app.run_until_idle()
    assert refreshed == ["llm"]
    assert {event.task for event in events} == {"work"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("suceeded",), "there is no such event; there are cancelled"),
        ((), "needs the name of an event"),
        (("failed", 42), "42 is not a function"),
    ],
)
def test_what_cannot_be_listened_to_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        App("memory://").on(*given)


async def test_a_listener_of_a_single_worker_that_raises_does_not_end_it(app: App, caplog):
    @app.task
    async def work() -> int:
        return 1

    def broken(event) -> None:
        raise RuntimeError("cannot hear")

    job = await work.enqueue()
    worker = await app._worker({})
    worker.on_event.append(broken)
    with caplog.at_level(logging.ERROR):
        async with worker:
            assert await job.result(timeout=20) == 1
    assert "cannot hear" in caplog.text


async def test_a_listener_to_worker_events_hears_every_worker_that_is_made_afterwards(app: App):
    heard: list[str] = []

    @app.task
    async def work() -> None: ...

    await app.run_until_idle()
    assert app.on_worker_event(lambda event: heard.append(event.kind)) is not None
    await work.enqueue()
    await app.run_until_idle()
    assert {"registered", "exchanged", "stopped"} <= set(heard)
    heard.clear()
    async with app.worker():
        await ended(app)
    assert heard.count("registered") == heard.count("stopped") == 1


async def test_an_exchange_is_told_with_its_sizes_and_its_time(app: App):
    told: list[dict[str, object]] = []

    @app.task
    async def work() -> None: ...

    app.on_worker_event(lambda event: told.append(dict(event.facts)) if event.kind == "exchanged" else None)
    await app.enqueue_many([work.job(), work.job()])
    await app.run_until_idle()
    assert sum(int(str(facts["claimed"])) for facts in told) == 2
    assert sum(int(str(facts["reported"])) for facts in told) == 2
    assert all(float(str(facts["seconds"])) > 0 and facts["parked"] == () for facts in told)
