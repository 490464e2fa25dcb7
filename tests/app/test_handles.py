"""Handles: looking at one job, waiting for it, steering it; and the same for many."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from headgate import (
    App,
    CancelJob,
    Changed,
    ConcurrencyLimit,
    ConfigError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    PayloadError,
    RateLimit,
    WrongState,
    current_job,
)


@pytest.fixture
def double(app: App) -> Any:
    @app.task
    async def double(n: Annotated[int, ConcurrencyLimit(1)]) -> int:
        current_job().progress({"done": n})
        if n < 0:
            raise ValueError("negative")
        if n == 0:
            raise CancelJob
        return n * 2

    return double


async def test_a_failed_job_raises_its_last_error(app: App, double: Any):
    job = await double.enqueue(-1)
    await app.run_until_idle()
    with pytest.raises(JobFailed, match=r"(?s)\(double\) failed: ValueError: negative"):
        await job.result()


async def test_a_cancelled_job_raises(app: App, double: Any):
    job, other = await double.enqueue(0), await double.enqueue(5)
    assert await other.cancel() == "cancelled"
    await app.run_until_idle()
    for each in (job, other):
        with pytest.raises(JobCancelled):
            await each.result()


async def test_waiting_ends_with_the_timeout(app: App, double: Any):
    job = await double.enqueue(1)
    with pytest.raises(TimeoutError, match="still ready after 0 s"):
        await job.result(timeout=0)
    with pytest.raises(TimeoutError, match=r"still ready after 0\.01 s"):
        await job.result(timeout=0.01)
    with pytest.raises(ConfigError, match="timeout="):
        await job.result(timeout=-1)
    await app.run_until_idle()
    assert await job.result(timeout=0) == 2


async def test_waiters_are_woken_when_the_job_ends(app: App, double: Any):
    jobs = [await double.enqueue(n) for n in range(1, 51)]
    waiting = asyncio.gather(*(job.result(timeout=30) for job in jobs))
    async with app.worker():
        assert await waiting == [n * 2 for n in range(1, 51)]


async def test_a_result_that_does_not_fit_its_annotation_says_so(app: App):
    @app.task
    async def wrong() -> int:
        return "text"  # pyright: ignore[reportReturnType]

    job = await wrong.enqueue()
    await app.run_until_idle()
    with pytest.raises(PayloadError, match="does not fit its annotation"):
        await job.result()
    assert (await job.info()).result == "text"


async def test_progress_and_info_show_what_happened(app: App, double: Any):
    job = await double.enqueue(-3)
    assert await job.progress() is None
    await app.run_until_idle()
    assert await job.progress() == {"done": -3}
    info = await job.info()
    assert (info.state, info.attempt, info.tries) == ("failed", 1, 1)
    assert [attempt.outcome for attempt in info.attempts] == ["failed"]
    assert info.ended_at is not None
    assert "ValueError: negative" in (info.error or "")


async def test_an_unknown_job_is_not_found(app: App):
    job = app.handle("nobody")
    for look in (
        job.status,
        job.info,
        job.progress,
        job.result,
        job.explain,
        job.cancel,
        job.restart,
        job.delete,
    ):
        with pytest.raises(JobNotFound, match="'nobody'"):
            await look()
    with pytest.raises(JobNotFound):
        await app.job("nobody")
    with pytest.raises(ConfigError, match="job id"):
        app.handle("")


async def test_a_job_is_found_by_its_id(app: App, double: Any):
    job = await double.options(id="mine").enqueue(1)
    assert await app.job("mine") == job
    assert hash(await app.job("mine")) == hash(job)
    assert "about to start" in str(await app.explain("mine")) or "no live worker" in str(
        await app.explain("mine")
    )


async def test_steering_refuses_the_wrong_state_and_names_it(app: App, double: Any):
    job = await double.enqueue(1)
    with pytest.raises(
        WrongState, match=r"cannot restart job .*: it is ready, not failed or cancelled"
    ) as caught:
        await job.restart()
    assert caught.value.state == "ready"
    with pytest.raises(WrongState, match="it is ready, not scheduled"):
        await job.expedite()
    with pytest.raises(WrongState, match="it is ready, not succeeded, failed or cancelled"):
        await job.delete()
    await app.run_until_idle()
    with pytest.raises(WrongState, match="it is succeeded, not scheduled, ready, waiting or running"):
        await job.cancel()


async def test_a_job_is_restarted_expedited_and_deleted(app: App, double: Any):
    job = await double.options(delay=3600).enqueue(-1)
    assert await job.expedite() == "ready"
    await app.run_until_idle()
    assert await job.restart() == "ready"
    await app.run_until_idle()
    assert (await job.info()).attempt == 2
    assert await job.delete() == "failed"
    with pytest.raises(JobNotFound):
        await job.status()


async def test_restarting_is_refused_while_another_job_has_its_unique_key(app: App, double: Any):
    old = await double.options(unique="u").enqueue(1)
    await old.cancel()
    await double.options(unique="u").enqueue(2)
    with pytest.raises(WrongState, match="another unfinished job has its unique key"):
        await old.restart()


async def test_a_list_of_jobs_is_steered_and_refusals_are_told(app: App, double: Any):
    first, second = await double.enqueue(1), await double.enqueue(2)
    await first.cancel()
    changed = await app.cancel([first, second.id, "nobody"])
    assert changed.done == 1
    assert [(verdict.id, verdict.state) for verdict in changed.refused] == [
        (first.id, "cancelled"),
        ("nobody", None),
    ]


async def test_a_single_job_that_refuses_raises(app: App, double: Any):
    job = await double.enqueue(1)
    assert (await app.cancel(job)).done == 1
    with pytest.raises(WrongState):
        await app.cancel(job.id)
    with pytest.raises(JobNotFound):
        await app.cancel("nobody")


async def test_a_filter_is_steered_in_batches(app: App, double: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headgate.app.steering.JOBS_PER_STEP", 7)
    await app.enqueue_many(double.job(n) for n in range(1, 31))
    await app.enqueue_many(double.options(queue="other").job(n) for n in range(1, 6))
    assert (await app.cancel(queue="default")).done == 30
    assert await app.count(state="cancelled") == 30
    assert (await app.restart(queue="default", task="double")).done == 30
    assert (await app.cancel(state=["ready", "waiting"])).done == 35
    assert (await app.delete(state="cancelled")).done == 35
    assert await app.count() == 0


async def test_a_filter_of_running_jobs_is_passed_over_once(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headgate.app.steering.JOBS_PER_STEP", 2)
    started = asyncio.Event()

    @app.task
    async def hang(n: int) -> None:
        if n == 5:
            started.set()
        await asyncio.Event().wait()

    jobs = await app.enqueue_many(hang.job(n) for n in range(6))
    async with app.worker():
        await started.wait()
        assert await app.cancel(jobs[5]) == Changed(1, asked=1)
        with pytest.raises(JobCancelled):
            await jobs[5].result(timeout=10)
        later = await hang.options(delay=60).enqueue(0)
        assert await app.cancel(task="hang") == Changed(6, asked=5)
        assert await later.status() == "cancelled"
        for job in jobs:
            with pytest.raises(JobCancelled):
                await job.result(timeout=10)


async def test_steering_needs_to_know_which_jobs(app: App):
    with pytest.raises(ConfigError, match="either ids or a filter"):
        await app.cancel()
    with pytest.raises(ConfigError, match="either ids or a filter"):
        await app.cancel("x", queue="y")
    with pytest.raises(ConfigError, match="cannot delete jobs that are running"):
        await app.delete(state="running")
    with pytest.raises(ConfigError, match="the states are scheduled, ready"):
        await app.delete(state="gone")
    with pytest.raises(ConfigError, match="no filter 'quueue'"):
        await app.delete(quueue="x")  # pyright: ignore[reportCallIssue]


async def test_jobs_are_found_by_what_they_are(app: App, double: Any):
    first = await double.enqueue(1)
    second = await double.enqueue(1)
    third = await double.options(tenant="acme", queue="q", unique="u").enqueue(1)

    async def ids(**filter: Any) -> list[str]:
        return [job.id for job in await app.jobs(**filter)]

    assert await ids() == [third.id, second.id, first.id]
    assert await ids(size=1, after=third.id) == [second.id]
    assert await ids(state="waiting") == [second.id]
    assert await ids(limit="double.n=1") == [second.id]
    assert await ids(tenant="acme") == [third.id]
    assert await ids(queue="q", unique="u", task="double") == [third.id]
    assert await ids(ids=[first.id, "nobody"]) == [first.id]
    assert await ids(limit="unheard-of") == []


async def test_jobs_are_found_by_the_key_they_wait_on_whose_ever_it_is(app: App):
    @app.task
    async def own(customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None: ...

    @app.task
    async def shared(account: Annotated[int, RateLimit(1, per=60, scope="account", shared=True)]) -> None: ...

    ids: dict[str, str] = {}
    for tenant in (None, "acme", "zeta"):
        for customer in (42, 43):
            await own.options(tenant=tenant).enqueue(customer)
            ids[f"{tenant} {customer}"] = (await own.options(tenant=tenant).enqueue(customer)).id
    await shared.options(tenant="zeta").enqueue(1)
    ids["shared"] = (await shared.options(tenant="acme").enqueue(1)).id

    async def found(**filter: Any) -> list[str]:
        jobs = await app.jobs(**filter)
        assert await app.count(**filter) == len(jobs)
        return sorted(name for name, id in ids.items() if id in {job.id for job in jobs})

    assert await found(limit="customer=42") == ["None 42", "acme 42", "zeta 42"]
    assert len(await found(limit="customer")) == 6
    assert await found(limit="customer=42", tenant="acme") == ["acme 42"]
    assert await found(limit="customer", tenant="acme") == ["acme 42", "acme 43"]
    assert await found(limit="account=1") == ["shared"]
    assert await found(limit="account", tenant="zeta") == []
    assert (await app.cancel(limit="customer=42", tenant="zeta")).done == 1
    assert (await app.cancel(limit="customer=42")).done == 2
    assert (await app.cancel(limit="account")).done == 1
    assert len(await found(limit="customer")) == 3


@pytest.mark.parametrize("size", [0, -1, True, "5", 2**31, 2**63, 2**70, 1.5])
async def test_a_page_of_no_size_is_refused(app: App, size: Any):
    with pytest.raises(ConfigError, match=rf"size={size!r}: a whole number from 1"):
        await app.jobs(size=size)


@pytest.mark.parametrize(
    "nothing", [{"state": []}, {"state": ()}, {"ids": []}, {"state": [], "queue": "default"}]
)
async def test_an_empty_list_matches_nothing(app: App, double: Any, nothing: Any):
    jobs = [await double.enqueue(1), await double.options(delay=60).enqueue(2)]
    (failed,) = [await double.enqueue(-1)]
    await app.run_until_idle()
    assert await app.jobs(**nothing) == []
    assert await app.count(**nothing) == 0
    for verb in ("cancel", "restart", "expedite", "delete"):
        assert await getattr(app, verb)(**nothing) == Changed(0)
        assert await getattr(app, verb)([]) == Changed(0)
    assert [await job.status() for job in (*jobs, failed)] == ["succeeded", "scheduled", "failed"]


@pytest.mark.parametrize("verb", ["cancel", "restart", "expedite", "delete"])
@pytest.mark.parametrize("open", [{}, {"queue": None}, {"state": None, "ids": None}])
async def test_a_filter_that_leaves_everything_open_steers_nothing(
    app: App, double: Any, verb: str, open: Any
):
    job = await double.enqueue(1)
    with pytest.raises(ConfigError, match="either ids or a filter"):
        await getattr(app, verb)(**open)
    assert await job.status() == "ready"


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ({"queue": ""}, "queue= must be a non-empty text, not ''"),
        ({"task": 5}, "task= must be a non-empty text, not 5"),
        ({"tenant": b"x"}, "tenant= must be a non-empty text"),
        ({"limit": ""}, "limit key must be a non-empty text"),
        ({"limit": 42}, "limit key must be a non-empty text, not 42"),
        ({"limit": "=x"}, "limit name must be a non-empty text"),
        ({"unique": ""}, "unique= must be"),
        ({"ids": 5}, "ids=5: a list of job ids"),
        ({"ids": [5]}, "job id must be a non-empty text, not 5"),
        ({"ids": ""}, "job id must be a non-empty text"),
        ({"state": 5}, "state=5: the states are scheduled"),
        ({"state": ""}, "the states are scheduled"),
        ({"state": ["ready", None]}, "the states are scheduled"),
    ],
)
async def test_a_filter_that_no_job_can_fit_is_refused(app: App, double: Any, filter: Any, message: str):
    job = await double.enqueue(1)
    for verb in ("jobs", "count", "cancel", "restart", "expedite", "delete"):
        with pytest.raises(ConfigError, match=message):
            await getattr(app, verb)(**filter)
    assert await job.status() == "ready"


async def test_what_is_no_list_of_jobs_is_refused(app: App):
    for wrong in (5, [5], [None], ["x", ""]):
        with pytest.raises(ConfigError, match=r"is neither|job id must be"):
            await app.cancel(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="after="):
        await app.jobs(after="")


async def test_filters_take_single_values_and_any_iterable(app: App, double: Any):
    first, second = await double.enqueue(1), await double.enqueue(2)
    assert await app.count(ids=first.id) == 1
    assert await app.count(ids=(id for id in [first.id, second.id])) == 2
    assert (await app.cancel(state=(state for state in ["ready", "running"]))).done == 2


async def test_queues_are_paused_and_resumed(app: App, double: Any):
    job = await double.enqueue(1)
    assert await app.pause("default")
    assert not await app.pause("default")
    assert await app.run_until_idle() == 0
    assert "paused" in str(await job.explain())
    assert [(queue.name, queue.paused, queue.ready) for queue in await app.queues()] == [("default", True, 1)]
    assert await app.resume("default")
    assert await app.run_until_idle() == 1


async def test_workers_are_shown(app: App, double: Any):
    async with app.worker(concurrency=7, queues=["a", "b"], name="w") as worker:
        (seen,) = await app.workers()
        assert (seen.id, seen.concurrency, seen.tasks) == (worker.id, 7, ("double",))


async def test_the_audit_says_what_is_wrong(app: App, double: Any, monkeypatch: pytest.MonkeyPatch):
    await double.enqueue(1)
    report = await app.audit()
    assert report.ok
    assert str(report) == "no problems"
    with monkeypatch.context() as patch:
        patch.setattr("headgate.app.audit.audit", lambda snapshot: ["a", "b"])
        report = await app.audit()
    assert not report.ok
    assert str(report) == "a\nb"


async def test_migrating_tells_the_versions(app: App):
    _, version = await app.migrate()
    assert await app.migrate() == (version, version)
    await app.open()
