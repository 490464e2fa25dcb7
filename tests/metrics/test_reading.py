from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

import pytest
from prometheus_client import CollectorRegistry

from headgate import App, ConcurrencyLimit, RateLimit
from headgate.metrics import instrument, reading
from headgate.metrics.reading import StoreReader, limit_heads
from headgate.testing import Clock
from tests.metrics.conftest import Numbers


@pytest.fixture
def busy(app: App) -> App:
    """Jobs in every state that is not an end: two ready, three waiting, one scheduled."""

    @app.task(queue="email")
    async def work(customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None: ...

    @app.task(queue="late", limits=[RateLimit(5, per=60, scope="api")])
    async def later() -> None: ...

    for n in range(5):
        work.enqueue_sync(n % 2)
    later.options(delay=60).enqueue_sync()
    return app


def test_a_scrape_shows_the_queues_of_the_store(busy: App, numbers: Numbers):
    jobs = {state: numbers("headgate_queue_jobs", queue="email", state=state) for state in reading.STATES}
    assert jobs["scheduled"] == jobs["running"] == 0
    assert (jobs["ready"] or 0) + (jobs["waiting"] or 0) == 5
    assert numbers("headgate_queue_jobs", queue="late", state="scheduled") == 1
    assert numbers("headgate_queue_paused", queue="email") == 0
    assert numbers("headgate_store_up") == 1


def test_a_scrape_shows_the_limits_by_name_and_not_by_key(busy: App, numbers: Numbers):
    assert numbers.labels("headgate_limit_waiting") == {("customer",), ("api",)}
    assert numbers("headgate_limit_max", limit="customer") == 1
    assert numbers("headgate_limit_used", limit="customer") == 0
    assert numbers("headgate_limit_max", limit="api") == 5
    assert numbers("headgate_limit_used", limit="api") is None


async def test_keys_are_stepped_over_on_the_way_to_the_next_limit(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "LIMITS_PER_PAGE", 3)

    @app.task
    async def work(a: Annotated[int, ConcurrencyLimit(1, scope="a")]) -> None: ...

    for name in ("b", "c", "d"):
        app.task(limits=[ConcurrencyLimit(2, scope=name)], name=name)(work.fn)
    for n in range(20):
        await work.enqueue(n)
        await work.options(tenant="acme").enqueue(n)
    for n in range(20):
        await app.set_limit(f"a={n}", 5)
    asked: list[Any] = []
    limits = app.limits

    async def counted(**options: Any):
        asked.append(options["after"])
        return await limits(**options)

    monkeypatch.setattr(app, "limits", counted)
    heads = await limit_heads(app)
    assert [(head.name, head.key) for head in heads] == [(name, name) for name in "abcd"]
    assert len(asked) <= 4
    assert [head.name for head in await limit_heads(app, most=2)] == ["a", "b"]


def test_the_age_of_the_oldest_ready_job_goes_by_the_store_s_clock(clock: Clock):
    app, registry = App("memory://", clock=clock), CollectorRegistry()
    instrument(app, registry)

    @app.task
    async def work() -> None: ...

    work.enqueue_sync()
    clock.advance(90)
    (queue,) = app.queues_sync()
    expected = 0 if queue.oldest is None else 90
    assert Numbers(registry)("headgate_queue_oldest_ready_seconds", queue="default") == expected
    app.close_sync()


def test_scrapes_that_follow_soon_do_not_ask_the_store_again(app: App):
    reader = StoreReader(app, every=3600)
    before = list(reader.samples())
    app.task(name="work")(lambda: None).enqueue_sync()
    assert list(reader.samples()) == before
    eager = StoreReader(app, every=0)
    assert list(eager.samples()) != before


def test_a_store_that_cannot_be_read_is_shown_as_down(tmp_path: Any, caplog: pytest.LogCaptureFixture):
    (tmp_path / "jobs.db").write_text("this is no database " * 100)
    reader = StoreReader(App(f"sqlite:///{tmp_path}/jobs.db"), every=0)
    for _ in range(2):
        assert [(metric.name, value) for metric, _, value in reader.samples()] == [("headgate_store_up", 0)]
    assert len([record for record in caplog.records if record.name == "headgate.metrics"]) == 1


def test_a_store_that_is_silent_holds_up_a_scrape_for_no_longer_than_told(monkeypatch: pytest.MonkeyPatch):
    app, go_on = App("memory://"), threading.Event()

    async def silent(_: App) -> tuple[()]:
        await asyncio.to_thread(go_on.wait)
        return ()

    monkeypatch.setattr(reading, "read", silent)
    reader = StoreReader(app, patience=0.01)
    assert [value for _, _, value in reader.samples()] == [0]
    go_on.set()
    patient = StoreReader(app, patience=30)
    assert [value for _, _, value in patient.samples()] == [1]
    app.close_sync()


async def test_a_scrape_on_an_event_loop_does_not_wait_for_the_store(monkeypatch: pytest.MonkeyPatch):
    app, go_on = App("memory://"), threading.Event()

    async def slow(_: App) -> tuple[()]:
        await asyncio.to_thread(go_on.wait)
        return ()

    monkeypatch.setattr(reading, "read", slow)
    reader = StoreReader(app, every=3600)
    assert list(reader.samples()) == []
    go_on.set()
    assert [value for _, _, value in await asyncio.to_thread(lambda: list(reader.samples()))] == [1]
    assert [value for _, _, value in reader.samples()] == [1]
    await app.close()
