from __future__ import annotations

from headgate.job import JobState
from tests.worker.stand_in import StandIn, ended, put, working


async def nothing():
    pass


async def test_jobs_of_an_unknown_task_are_left_for_others_and_reported_once(engine, caplog):
    known, unknown = StandIn("known", nothing), StandIn("unknown", nothing)
    strangers = [await put(engine, unknown) for _ in range(3)]
    async with working(engine, known):
        await ended(engine, await put(engine, known))
        assert set(await engine.states(strangers)) == {JobState.READY}
        async with working(engine, unknown):
            await ended(engine, *strangers)
    assert caplog.text.count("task 'unknown' is not known to this worker") == 1
