"""Following a job until it has ended."""

from __future__ import annotations

import asyncio

import pytest

from headgate import App, JobNotFound, JobUpdate, Retry, current_job


async def collected(app: App, id: str, steps: asyncio.Queue[JobUpdate]) -> None:
    async for update in app.handle(id).stream():
        await steps.put(update)


async def test_a_stream_tells_state_and_progress_until_the_job_has_ended(app: App):
    go = asyncio.Event()

    @app.task
    async def climb() -> str:
        current_job().progress({"step": 1})
        await go.wait()
        return "up"

    job = await climb.enqueue()
    steps: asyncio.Queue[JobUpdate] = asyncio.Queue()
    async with asyncio.timeout(30):
        following = asyncio.create_task(collected(app, job.id, steps))
        first = await steps.get()
        assert (first.state, first.attempt, first.progress) == ("ready", 0, None)
        async with app.worker():
            while (update := await steps.get()).progress is None:
                assert update.state == "running"
            assert (update.state, update.attempt, update.progress) == ("running", 1, {"step": 1})
            go.set()
            await following
    assert steps.get_nowait().state == "succeeded"
    assert steps.empty()


async def test_a_stream_of_a_job_that_has_ended_tells_that(app: App):
    @app.task(retry=Retry(attempts=1))
    async def fail() -> None:
        raise ValueError("broken")

    job = await fail.enqueue()
    await app.run_until_idle()
    (only,) = [update async for update in job.stream()]
    assert (only.state, only.attempt) == ("failed", 1)
    assert (only.error or "").startswith("ValueError: broken")


async def test_a_stream_of_no_job_says_so(app: App):
    with pytest.raises(JobNotFound):
        await anext(app.handle("gone").stream())


def test_the_sync_twin_tells_the_same_and_may_be_left(app: App):
    @app.task
    async def work() -> int:
        return 1

    job = work.enqueue_sync()
    for update in job.stream_sync():
        assert update.state == "ready"
        break
    app.run_until_idle_sync()
    assert [update.state for update in job.stream_sync()] == ["succeeded"]
