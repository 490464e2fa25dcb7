"""How a store stands, asked over HTTP on every store."""

from __future__ import annotations

import pytest

from headgate import App
from headgate.testing import Clock
from headgate.web.api.shown import HIDDEN

ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


async def enqueue(asked, customer: int, note: str = "", **more) -> str:
    body = {"task": "sync", "args": {"customer": customer, "note": note}, **more}
    return (await asked.post("/jobs", 201, body))["id"]


async def test_totals_say_how_many_jobs_stand_in_each_state(asked):
    for _ in range(3):
        await enqueue(asked, 1)
    found = await asked.get("/totals")
    assert (found["ready"], found["waiting"], found["failed"], found["partial"]) == (1, 2, 0, [])
    found = await asked.get("/totals", most=1)
    assert found["waiting"] >= 1


async def test_the_keys_that_most_wait_on_come_first(asked):
    for customer, jobs in ((1, 2), (2, 4), (3, 1)):
        for _ in range(jobs):
            await enqueue(asked, customer)
    found = await asked.get("/tightest", size=2)
    assert [(one["key"], one["waiting"]) for one in found] == [("sync.customer=2", 3), ("sync.customer=1", 1)]


async def test_a_key_names_what_holds_it_and_what_waits_in_order(app: App, asked):
    jobs = [await enqueue(asked, 1) for _ in range(4)]
    worker = (await asked.post("/work", 201, {"tasks": ["sync"]}))["worker"]
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 1})
    key = await asked.get("/limits/sync.customer=1", waiters=2)
    assert (key["limit"]["held"], key["limit"]["max"], key["limit"]["waiting"], key["free"]) == (1, 1, 3, 0)
    assert [(one["job"], one["worker"]) for one in key["holders"]] == [(jobs[0], worker)]
    assert [one["job"] for one in key["waiters"]] == jobs[1:3]
    assert (await asked.get("/limits/other=1", 404))["type"] == "/problems/not-found"
    await asked.get("/limits/sync.customer=1", 422, waiters=-1)


async def test_all_keys_of_a_job_tell_whether_they_have_room(asked):
    await enqueue(asked, 1)
    second = await enqueue(asked, 1, limits=[{"name": "crm", "max": 5}])
    keys = {one["limit"]["key"]: one["free"] for one in await asked.get(f"/jobs/{second}/keys")}
    assert keys == {"crm": 5, "sync.customer=1": 1}
    await asked.get("/jobs/none/keys", 404)


async def test_history_tells_what_was_done_by_spans(app: App, asked, headgate_clock: Clock):
    await enqueue(asked, 1)
    await enqueue(asked, 2, "fail")
    await app.run_until_idle()
    (span,) = await asked.get("/history")
    assert (span["started"], span["succeeded"], span["failed"], span["queue"]) == (2, 1, 1, None)
    (one,) = await asked.get("/history", each=True, step=3600)
    assert (one["queue"], one["task"]) == ("crm", "sync")
    now = headgate_clock.now()
    assert len(await asked.get("/history", since=now.replace(second=0, microsecond=0).isoformat())) == 1
    for wrong in ({"since": "yesterday"}, {"since": "2030-01-01T00:00:00"}, {"step": "61"}, {"step": "0"}):
        await asked.get("/history", 422, **wrong)


async def test_failures_are_grouped_and_a_group_is_restarted(app: App, asked):
    for customer in range(3):
        await enqueue(asked, customer, "fail")
    await app.run_until_idle()
    found = await asked.get("/failures", task="sync")
    (group,) = found["groups"]
    assert (group["count"], group["error_type"], found["jobs"], found["more"]) == (3, "ValueError", 3, False)
    filter = {"state": "failed", "task": group["task"], "error": group["common"]}
    assert (await asked.post("/jobs/restart", 200, {"filter": filter, "dry_run": True}))["matching"] == 3
    assert (await asked.post("/jobs/restart", 200, {"filter": filter}))["done"] == 3
    await asked.get("/failures", 422, state="failed")


async def test_a_question_in_sql_is_answered_to_admins(asked, asking):
    await enqueue(asked, 1)
    await enqueue(asked, 1)
    question = {"query": "select state, count(*) from jobs group by state order by state"}
    found = await asked.post("/sql", 200, question)
    assert (found["rows"], found["more"]) == ([["ready", 1], ["waiting", 1]], False)
    assert (await asked.post("/sql", 200, {"query": "select id from jobs", "size": 1}))["more"] is True
    for wrong in ("delete from jobs", "selekt", "", "select 1; select 2"):
        await asked.post("/sql", 422, {"query": wrong})
    await asking("operate").post("/sql", 403, question)
    assert (await asked.get("/totals"))["ready"] == 1


async def test_retry_policies_are_shown_in_seconds(asked):
    job = await enqueue(asked, 1, retry={"attempts": 4, "delay": 1.5, "jitter": 0})
    retry = (await asked.get(f"/jobs/{job}"))["retry"]
    assert (retry["attempts"], retry["delay"], retry["max_delay"]) == (4, 1.5, 3600)


@ON_MEMORY
async def test_what_is_hidden_from_readers_is_hidden_everywhere(app: App, asked, asking_with):
    job = await enqueue(asked, 1, "fail")
    await app.run_until_idle()
    reader, operator = asking_with("read", hide_payloads=True), asking_with("operate", hide_payloads=True)
    secret = "no such customer"
    for path in ("/failures", f"/jobs/{job}/explain", f"/jobs/{job}", "/jobs", f"/jobs/{job}/events"):
        assert secret not in (await reader.client.get(path)).text, path
        assert secret in (await operator.client.get(path)).text, path
    (group,) = (await reader.get("/failures"))["groups"]
    assert (group["error"], group["common"], group["count"]) == (HIDDEN, "", 1)


@ON_MEMORY
async def test_what_is_redacted_is_redacted_everywhere_for_everyone(app: App, asked, asking_with):
    job = await enqueue(asked, 1, "fail")
    await app.run_until_idle()

    def redact(job, who):
        return job | {"error": job["error"] and "KeyError: left out", "attempts": []}

    admin = asking_with("admin", redact=redact)
    for path in ("/failures", f"/jobs/{job}/explain", f"/jobs/{job}", "/jobs", f"/jobs/{job}/events"):
        text = (await admin.client.get(path)).text
        assert ("no such customer" in text, "left out" in text) == (False, True), path
    refused = await admin.post("/sql", 403, {"query": "select error from jobs"})
    assert "redacts" in refused["detail"]


@ON_MEMORY
async def test_a_server_that_only_looks_answers_what_only_looks(asking_with):
    admin = asking_with("admin", read_only=True)
    assert (await admin.post("/sql", 200, {"query": "select 1 as one"}))["rows"] == [[1]]
    assert (await admin.post("/audit"))["ok"] is True
    assert (await admin.post("/audit?repair=true", 403))["type"] == "/problems/read-only"
    assert (await admin.post("/schedules/x/run", 403))["type"] == "/problems/read-only"
