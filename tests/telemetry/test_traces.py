# pyright: reportRedeclaration=false
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from headgate import (
    App,
    CancelJob,
    ConfigError,
    FailJob,
    JobExists,
    PayloadError,
    Retry,
    RetryLater,
    Snooze,
    current_job,
)
from headgate.telemetry import instrument
from headgate.testing import Clock
from tests.support.waiting import until
from tests.telemetry.conftest import Spans, attributes, is_child, trace_of


def current() -> str:
    """The span that the calling code stands in."""
    span = trace.get_current_span()
    return span.name if isinstance(span, ReadableSpan) else "none"


def seen(key: str) -> Any:
    return baggage.get_baggage(key)


async def test_a_request_its_enqueue_and_the_attempt_are_one_trace(app: App, spans: Spans):
    @app.task
    async def work() -> str:
        return current()

    with spans.tracer.start_as_current_span("request"):
        job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == "attempt work"
    request, enqueue, attempt = (spans.one(name) for name in ("request", "enqueue work", "attempt work"))
    assert trace_of(request) == trace_of(enqueue) == trace_of(attempt)
    assert is_child(enqueue, request)
    assert is_child(attempt, enqueue)
    assert [link.context.span_id for link in attempt.links] == [enqueue.context and enqueue.context.span_id]
    assert (enqueue.kind, attempt.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)


async def test_spans_follow_the_conventions_for_messaging(app: App, spans: Spans, clock: Clock):
    @app.task(queue="email")
    async def work() -> str:
        return current_job().worker

    job = await work.options(tenant="acme", priority=7, delay=10).enqueue()
    clock.advance(15)
    await app.run_until_idle()
    assert dict(attributes(spans.one("enqueue work"))) == {
        "messaging.system": "headgate",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "email",
        "messaging.message.id": job.id,
        "headgate.task": "work",
        "headgate.tenant": "acme",
        "headgate.priority": 7,
    }
    said = dict(attributes(spans.one("attempt work")))
    assert said.pop("headgate.waiting") == pytest.approx(5, abs=0.5)
    assert 0 <= said.pop("headgate.duration") < 5
    assert said == {
        "messaging.system": "headgate",
        "messaging.operation.name": "attempt",
        "messaging.operation.type": "process",
        "messaging.destination.name": "email",
        "messaging.message.id": job.id,
        "messaging.client.id": await job.result(),
        "headgate.task": "work",
        "headgate.tenant": "acme",
        "headgate.priority": 7,
        "headgate.attempt": 1,
        "headgate.tries": 1,
        "headgate.outcome": "succeeded",
    }


@pytest.mark.parametrize(
    ("error", "outcome", "error_type"),
    [
        (None, "succeeded", None),
        (ValueError("no"), "failed", "ValueError"),
        (FailJob("no"), "failed", "headgate.errors.FailJob"),
        (RetryLater(delay=60), "retried", "headgate.errors.RetryLater"),
        (Snooze(delay=60), "snoozed", None),
        (CancelJob(), "cancelled", None),
    ],
    ids=["none", "error", "fail", "retry", "snooze", "cancel"],
)
async def test_an_attempt_says_what_the_store_made_of_it(
    app: App, spans: Spans, error: Exception | None, outcome: str, error_type: str | None
):
    @app.task(retry=Retry(attempts=2) if isinstance(error, RetryLater) else None)
    async def work() -> None:
        if error is not None:
            raise error

    await work.enqueue()
    await app.run_until_idle()
    span = spans.one("attempt work")
    assert attributes(span)["headgate.outcome"] == outcome
    assert attributes(span).get("error.type") == error_type
    assert (span.status.status_code is StatusCode.ERROR) == (error_type is not None)
    assert [event.name for event in span.events] == (["exception"] if error_type else [])
    assert ("headgate.retry_in" in attributes(span)) == (outcome in ("retried", "snoozed"))


async def test_an_attempt_past_its_timeout_is_an_error_of_its_span(app: App, spans: Spans):
    @app.task(timeout=0.05)
    async def work() -> None:
        await asyncio.sleep(3600)

    await work.enqueue()
    await app.run_until_idle()
    span = spans.one("attempt work")
    assert attributes(span)["error.type"] == "TimeoutError"
    assert "did not end within its timeout" in (span.status.description or "")


async def test_every_attempt_of_a_job_stands_below_its_enqueue(app: App, spans: Spans):
    @app.task(retry=Retry(attempts=3, delay=0, jitter=0))
    async def work() -> None:
        if current_job().attempt < 3:
            raise ValueError

    await work.enqueue()
    await app.run_until_idle()
    attempts, enqueue = spans.all("attempt work"), spans.one("enqueue work")
    assert [attributes(span)["headgate.attempt"] for span in attempts] == [1, 2, 3]
    assert [attributes(span)["headgate.outcome"] for span in attempts] == ["retried", "retried", "succeeded"]
    assert all(is_child(span, enqueue) for span in attempts)


async def test_a_restarted_job_goes_on_in_its_trace(app: App, spans: Spans):
    @app.task(retry=None)
    async def work() -> None:
        raise ValueError

    job = await work.enqueue()
    await app.run_until_idle()
    await job.restart()
    await app.run_until_idle()
    assert len(spans.all("attempt work")) == 2
    assert len({trace_of(span) for span in spans.all("attempt work")}) == 1


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
async def test_an_enqueue_inside_an_attempt_continues_its_trace(app: App, spans: Spans, threaded: bool):
    @app.task
    async def leaf() -> None: ...

    if threaded:

        @app.task
        def work() -> str:
            leaf.enqueue_sync()
            return current()
    else:

        @app.task
        async def work() -> str:
            await leaf.enqueue()
            return current()

    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == "attempt work"
    assert is_child(spans.one("enqueue leaf"), spans.one("attempt work"))
    assert is_child(spans.one("attempt leaf"), spans.one("enqueue leaf"))
    assert len({trace_of(spans.one(name)) for name in spans.names}) == 1


async def test_baggage_travels_with_the_job_and_on_to_the_jobs_that_it_enqueues(app: App):
    @app.task
    async def leaf() -> Any:
        return seen("tenant")

    @app.task
    def work() -> list[Any]:
        return [seen("tenant"), leaf.enqueue_sync().id]

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        job = await work.enqueue()
    finally:
        context.detach(token)
    await app.run_until_idle()
    tenant, id = await job.result()
    assert (tenant, await app.handle(id).result()) == ("acme", "acme")
    assert seen("tenant") is None


async def test_one_call_that_enqueues_many_is_one_span(app: App, spans: Spans):
    @app.task
    async def work() -> None: ...

    @app.task(queue="email")
    async def other() -> None: ...

    await app.enqueue_many([work.job() for _ in range(3)])
    await app.enqueue_many([work.job(), other.job()])
    assert attributes(spans.one("enqueue work"))["messaging.batch.message_count"] == 3
    assert attributes(spans.one("enqueue"))["messaging.batch.message_count"] == 2
    assert "messaging.destination.name" not in attributes(spans.one("enqueue"))
    await app.run_until_idle()
    assert len(spans.all("attempt work")) == 4
    assert all(is_child(span, spans.one("enqueue work")) for span in spans.all("attempt work")[:3])


async def test_a_job_that_was_there_already_is_named_and_said_to_be(app: App, spans: Spans):
    @app.task
    async def work() -> None: ...

    first = await work.options(unique="one").enqueue()
    await work.options(unique="one").enqueue()
    new, old = spans.all("enqueue work")
    assert attributes(old)["messaging.message.id"] == first.id
    assert attributes(old)["headgate.created"] is False
    assert "headgate.created" not in attributes(new)


async def test_an_enqueue_that_is_refused_is_an_error_of_its_span(app: App, spans: Spans):
    @app.task
    async def work() -> None: ...

    await work.options(id="one").enqueue()
    with pytest.raises(JobExists):
        await work.options(id="one").enqueue()
    span = spans.all("enqueue work")[1]
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "headgate.errors.JobExists"
    assert [event.name for event in span.events] == ["exception"]


async def test_a_job_without_a_trace_begins_one_whatever_its_worker_was_started_in(plain: App, spans: Spans):
    @plain.task
    async def work() -> None: ...

    await work.enqueue()
    instrument(plain, tracer_provider=spans.provider)
    with spans.tracer.start_as_current_span("the worker's start"):
        await plain.run_until_idle()
    span = spans.one("attempt work")
    assert span.parent is None
    assert list(span.links) == []


async def test_headers_of_the_callers_own_go_before(app: App, spans: Spans):
    @app.task
    async def work() -> None: ...

    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await work.options(headers={"traceparent": given}).enqueue()
    await app.run_until_idle()
    assert trace_of(spans.one("attempt work")) == "0af7651916cd43dd8448eb211c80319c"


async def test_baggage_that_fits_into_no_header_is_left_out(app: App, spans: Spans):
    @app.task
    async def work() -> Any:
        return seen("much")

    token = context.attach(baggage.set_baggage("much", "x" * 4000))
    try:
        large = await work.options(headers={"other": "y" * 6000}).enqueue()
        small = await work.enqueue()
    finally:
        context.detach(token)
    await app.run_until_idle()
    assert await large.result() is None
    assert await small.result() == "x" * 4000
    assert all(span.parent is not None for span in spans.all("attempt work"))


class Broken(SpanProcessor):
    """A processor of the program's own that is at fault."""

    def __init__(self, at: str) -> None:
        self.at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.at == "start" and span.name.startswith("attempt"):
            raise ZeroDivisionError

    def on_end(self, span: Any) -> None:
        if self.at == "end" and span.name.startswith("attempt"):
            raise ZeroDivisionError


@pytest.mark.parametrize("at", ["start", "end"])
async def test_a_span_processor_that_raises_fails_no_job(
    app: App, spans: Spans, at: str, caplog: pytest.LogCaptureFixture
):
    spans.provider.add_span_processor(Broken(at))

    @app.task
    async def work() -> int:
        return 7

    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == 7
    assert any(record.name == "headgate.telemetry" for record in caplog.records)


async def test_arguments_that_do_not_fit_leave_no_span_open(app: App, spans: Spans):
    @app.task
    async def work(number: int) -> None: ...

    job = await app.enqueue(app.raw_job("work", {"number": "none"}))
    await app.run_until_idle()
    assert str(await job.status()) == "failed"
    assert spans.names == ["enqueue work"]


async def test_a_lost_attempt_has_ended_when_its_task_has(spans: Spans):
    clock = Clock()
    app, running = App("memory://", clock=clock), asyncio.Event()
    instrument(app, tracer_provider=spans.provider, metrics=False)

    @app.task
    async def work() -> None:
        running.set()
        await asyncio.sleep(3600)

    async with app, app.worker(grace=0, lease=15):
        await work.enqueue()
        await asyncio.wait_for(running.wait(), 30)
        clock.advance(16)
        await until(lambda: spans.all("attempt work"))
        span = spans.all("attempt work")[0]
        assert attributes(span)["headgate.outcome"] == "lost"
        assert attributes(span)["error.type"] == "lost"
        assert span.status.status_code is StatusCode.ERROR


async def test_payloads_that_are_refused_reach_no_span(app: App, spans: Spans):
    @app.task
    async def work(number: int) -> None: ...

    with pytest.raises(PayloadError):
        await work.enqueue("none")  # pyright: ignore[reportArgumentType]
    assert spans.names == []


async def test_a_job_may_be_traced_inside_middleware_of_the_programs_own(app: App, spans: Spans):
    @app.middleware
    async def around(job: Any, call_next: Callable[[], Any]) -> Any:
        with spans.tracer.start_as_current_span("inner"):
            return await call_next()

    @app.task
    def work() -> str:
        return current()

    job = await work.enqueue()
    await app.run_until_idle()
    assert await job.result() == "inner"
    assert is_child(spans.one("inner"), spans.one("attempt work"))


async def test_instrumenting_twice_changes_nothing_and_other_providers_are_refused(
    app: App, spans: Spans, measured: Any
):
    @app.task
    async def work() -> None: ...

    instrument(app, tracer_provider=spans.provider, meter_provider=measured.provider)
    await work.enqueue()
    await app.run_until_idle()
    assert spans.names == ["enqueue work", "attempt work"]
    with pytest.raises(ConfigError, match="instrumented already, with other providers"):
        instrument(app, tracer_provider=Spans().provider)
