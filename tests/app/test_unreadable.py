"""A stored payload that is no JSON ends its job, and hides no other from a listing."""

from __future__ import annotations

from headgate import App, JobState
from headgate.job import NewJob


async def test_arguments_that_are_no_json_end_their_job(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)

    engine = await app._client.engine()  # pyright: ignore[reportPrivateUsage]
    await engine.enqueue([NewJob("bad", work.name, args='{"number', metadata="nonsense")])
    good = await work.enqueue(1)
    listed = {job.id: job for job in await app.jobs()}
    assert listed["bad"].args is None
    assert listed["bad"].metadata == {}
    assert "cannot be read" in (listed["bad"].error or "")
    assert listed[good.id].args == {"number": 1}
    await app.run_until_idle()
    assert ran == [1]
    bad = await (await app.job("bad")).info()
    assert bad.state is JobState.FAILED
    assert bad.error is not None
    await app.delete("bad")
    assert [job.id for job in await app.jobs()] == [good.id]
