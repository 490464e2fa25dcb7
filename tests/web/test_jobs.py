from __future__ import annotations

import asyncio

import pytest

from headgate import App, ConfigError
from headgate.testing import Clock


async def test_a_job_is_enqueued_runs_and_is_shown(app: App, asked):
    made = await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 21}, "priority": 3})
    assert (made["created"], asked.headers["location"]) == (True, f"/api/v1/jobs/{made['id']}")
    await app.run_until_idle()
    job = await asked.get(f"/jobs/{made['id']}")
    shown = {name: job[name] for name in ("task", "queue", "state", "args", "result", "priority", "limits")}
    assert shown == {
        "task": "sync", "queue": "crm", "state": "succeeded", "args": {"customer": 21}, "result": 42, "priority": 3,
        "limits": ["sync.customer=21"],
    }  # fmt: skip
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["succeeded"]


async def test_a_request_that_is_sent_again_enqueues_one_job(app: App, asked):
    body, key = {"task": "sync", "args": {"customer": 1}}, {"Idempotency-Key": "order-7"}
    first = await asked.post("/jobs", 201, body, headers=key)
    again = await asked.post("/jobs", 200, body, headers=key)
    assert (first["id"], again["id"], again["created"]) == ("order-7", "order-7", False)
    assert await app.count() == 1
    other = await asked.post("/jobs", 409, {"task": "sync", "args": {"customer": 2}}, headers=key)
    assert "was used for another job" in other["detail"]


async def test_many_are_enqueued_or_none(app: App, asked):
    good, bad = {"task": "sync", "args": {"customer": 1}}, {"task": "sync", "args": {"customer": "x"}}
    refused = await asked.post("/jobs/batch", 422, {"jobs": [good, bad]})
    assert refused["detail"].startswith("jobs[1]: ")
    assert await app.count() == 0
    made = await asked.post("/jobs/batch", 201, {"jobs": [good, good]})
    assert [one["created"] for one in made] == [True, True]
    assert await app.count() == 2


async def test_a_task_of_other_code_is_enqueued_raw_with_its_limits(app: App, asked):
    refused = await asked.post("/jobs", 422, {"task": "render", "args": {"page": 1}})
    assert "raw: true" in refused["detail"]
    body = {
        "task": "render", "args": {"page": 1}, "raw": True, "queue": "gpu", "retry": {"attempts": 2},
        "limits": [{"name": "gpu", "max": 1, "key": "a"}],
    }  # fmt: skip
    first, second = [(await asked.post("/jobs", 201, body))["id"] for _ in range(2)]
    assert (await asked.get(f"/jobs/{first}"))["limits"] == ["gpu=a"]
    waiting = await asked.get(f"/jobs/{second}/explain")
    assert (waiting["state"], waiting["key"], waiting["place"]) == ("waiting", "gpu=a", 1)


async def test_lists_come_in_pages(asked):
    for customer in range(5):
        await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": customer}})
    seen, after = [], {}
    while True:
        page = await asked.get("/jobs", size=2, state="ready,waiting", **after)
        seen += [job["args"]["customer"] for job in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == [4, 3, 2, 1, 0]
    assert await asked.get("/jobs/count", queue="crm") == {"matching": 5, "exact": True}


async def test_waiting_for_a_job_answers_when_it_has_ended(app: App, asked):
    job = (await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}}))["id"]
    assert (await asked.get(f"/jobs/{job}", wait=0.05))["state"] == "ready"
    waiting = asyncio.create_task(asked.get(f"/jobs/{job}", wait=30))
    await app.run_until_idle()
    assert (await waiting)["state"] == "succeeded"


async def test_a_failed_job_is_restarted_and_an_ended_one_deleted(app: App, asked):
    job = (await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1, "note": "fail"}}))["id"]
    await app.run_until_idle()
    assert "no such customer" in (await asked.get(f"/jobs/{job}"))["error"]
    assert await asked.post(f"/jobs/{job}/restart") == {"id": job, "state": "ready"}
    assert (await asked.post(f"/jobs/{job}/restart", 409))["state"] == "ready"
    assert (await asked.post(f"/jobs/{job}/cancel"))["state"] == "cancelled"
    assert (await asked("DELETE", f"/jobs/{job}", 200))["state"] == "cancelled"
    assert (await asked.get(f"/jobs/{job}", 404))["type"] == "/problems/not-found"


async def test_a_failed_job_is_restarted_with_other_arguments(app: App, asked):
    made = await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 4, "note": "fail"}})
    await app.run_until_idle()
    path = f"/jobs/{made['id']}"
    refused = await asked.post(f"{path}/restart", 422, {"args": {"customer": "x"}})
    assert "customer" in refused["detail"]
    assert (await asked.get(path))["state"] == "failed"
    assert (await asked.post(f"{path}/restart", 200, {"args": {"note": ""}}))["state"] == "ready"
    await app.run_until_idle()
    job = await asked.get(path)
    assert (job["state"], job["result"], job["args"]) == ("succeeded", 8, {"customer": 4, "note": ""})


async def test_jobs_are_found_by_their_error_and_by_when_they_ended(app: App, asked, headgate_clock: Clock):
    made = await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 4, "note": "fail"}})
    await app.run_until_idle()
    ended = headgate_clock.now()

    async def found(**query):
        return [job["id"] for job in (await asked.get("/jobs", **query))["items"]]

    assert await found(error="no such customer") == [made["id"]]
    assert await found(error="no_such") == []
    assert await found(since=ended.isoformat()) == [made["id"]]
    assert await found(until=ended.isoformat()) == []
    await asked.get("/jobs", 422, since="yesterday")
    filter = {"error": "no such customer", "since": ended.isoformat()}
    assert (await asked.post("/jobs/restart", 200, {"filter": filter}))["done"] == 1


async def test_a_scheduled_job_is_expedited(asked, headgate_clock: Clock):
    job = (await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}, "delay": 3600}))["id"]
    assert (await asked.get(f"/jobs/{job}"))["state"] == "scheduled"
    assert (await asked.post(f"/jobs/{job}/expedite"))["state"] in ("scheduled", "ready")


@pytest.mark.parametrize("how", ["ids", "filter"])
async def test_many_are_cancelled_after_a_dry_run(asked, how: str):
    ids = [
        (await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": n}}))["id"] for n in range(3)
    ]
    which = {"ids": ids} if how == "ids" else {"filter": {"queue": "crm", "state": "ready"}}
    assert (await asked.post("/jobs/cancel", 200, {**which, "dry_run": True}))["matching"] == 3
    assert (await asked.post("/jobs/cancel", 200, which))["done"] == 3
    assert await asked.get("/jobs/count", state="cancelled") == {"matching": 3, "exact": True}


async def test_an_id_may_hold_any_characters(asked):
    id = "a/b c?d#e%2F=/\nx\n"
    made = await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}, "id": id})
    shown = await asked("GET", asked.headers["location"].removeprefix("/api/v1"), 200)
    assert (made["id"], shown["id"]) == (id, id)


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        ("/jobs", {"stat": "ready"}, "unknown field `stat`"),
        ("/jobs", {"state": "rady"}, "Invalid enum value 'rady'"),
        ("/jobs", {"size": "0"}, "from 1 to 1,000"),
        ("/jobs", {"size": "many"}, "Expected `int`"),
        ("/jobs", {"after": "xyz"}, "is not a cursor"),
        ("/workers", {"x": "1"}, "nothing is known here about x"),
    ],
)
async def test_a_query_that_means_nothing_is_refused(asked, path, query, text):
    assert text in (await asked.get(path, 422, **query))["detail"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"task": "sync", "args": {}}, "customer"),
        ({"task": "sync", "args": {"customer": 1}, "priority": 100}, "0 (first) to 99"),
        ({"task": "sync", "args": {"customer": 1}, "delay": 1, "at": "2030-01-01T00:00:00Z"}, "exclude each other"),
        ({"task": "sync", "args": {"customer": 1}, "wait": 3}, "unknown field `wait`"),
        ({"task": 3}, "Expected `str`"),
        ([], "Expected `object`"),
    ],
)  # fmt: skip
async def test_a_body_that_does_not_fit_is_refused_and_nothing_is_stored(app: App, asked, body, text):
    assert text in (await asked.post("/jobs", 422, body))["detail"]
    assert await app.count() == 0


async def test_large_counts_stop_and_say_so(app: App, asked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headgate.app.counting.PAGE", 4)
    monkeypatch.setattr("headgate.app.counting.PAGES", 2)
    sync = app.tasks["sync"].options(delay=60)
    await app.enqueue_many([sync.job(n) for n in range(12)])
    assert await asked.get("/jobs/count", state="scheduled", queue="crm") == {"matching": 8, "exact": False}
    assert await asked.get("/jobs/count", state="scheduled", queue="crm", exact=True) == {
        "matching": 12,
        "exact": True,
    }
    by_state = await asked.get("/jobs/count", state="scheduled")
    assert by_state == {"matching": 12, "exact": False}, "from the counts of the store, with its own jobs"
    which = {"filter": {"queue": "crm"}, "dry_run": True}
    answer = await asked.post("/jobs/cancel", 200, which)
    assert (answer["matching"], answer["exact"]) == (8, False)
    assert (await asked.post("/jobs/cancel", 200, {"filter": {"queue": "crm"}}))["done"] == 12
    assert await asked.get("/jobs/count", state="scheduled", queue="crm") == {"matching": 0, "exact": True}


@pytest.mark.parametrize("most", [5, 6, 7])
async def test_a_program_counts_up_to_a_bound(app: App, most: int):
    await app.enqueue_many([app.tasks["sync"].job(n) for n in range(6)])
    found = await app.count_up_to(most, task="sync")
    assert (found.matching, found.exact) == (min(most, 6), most >= 6)
    with pytest.raises(ConfigError, match="most=0"):
        await app.count_up_to(0)
