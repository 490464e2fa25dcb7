from __future__ import annotations

import pytest

from headgate import App


@pytest.fixture
def ticking(app: App) -> App:
    @app.task(every=60, queue="crm")
    async def tick() -> str:
        return "tock"

    return app


async def test_periodic_tasks_are_listed_paused_and_resumed(ticking: App, asked):
    (found,) = await asked.get("/schedules")
    assert (found["name"], found["schedule"], found["paused"]) == ("tick", "every 60 s", False)
    assert found["next"] is not None
    assert await asked.post("/schedules/tick/pause") == {"changed": True}
    assert await asked.post("/schedules/tick/pause") == {"changed": False}
    (found,) = await asked.get("/schedules")
    assert (found["paused"], found["next"]) == (True, None)
    assert await asked.post("/schedules/tick/resume") == {"changed": True}


async def test_a_periodic_task_is_run_now(ticking: App, asked):
    made = await asked.post("/schedules/tick/run", 201)
    await ticking.run_until_idle()
    job = await asked.get(f"/jobs/{made['id']}")
    assert (job["task"], job["state"], job["result"]) == ("tick", "succeeded", "tock")


async def test_what_is_no_periodic_task_is_not_found(ticking: App, asked):
    for verb in ("run", "pause", "resume"):
        for name in ("sync", "none"):
            refused = await asked.post(f"/schedules/{name}/{verb}", 404)
            assert repr(name) in refused["detail"]
