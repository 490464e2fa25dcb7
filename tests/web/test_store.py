from __future__ import annotations

from headgate import App


async def test_a_limit_is_overridden_by_who_asks_and_cleared(app: App, asked, asking):
    await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}})
    operator = asking("operate")
    assert await operator("PUT", "/limits/sync.customer=1/override", 200, {"max": 3, "why": "a big one"}) == {
        "changed": True
    }
    (key,) = [one for one in (await asked.get("/limits"))["items"] if one["key"] == "sync.customer=1"]
    assert (key["max"], key["override"]["by"], key["override"]["why"]) == (3, "operate-person", "a big one")
    assert await operator("DELETE", "/limits/sync.customer=1/override", 200) == {"changed": True}
    assert await operator("DELETE", "/limits/sync.customer=1/override", 200) == {"changed": False}


async def test_limits_come_in_pages(asked):
    for customer in range(3):
        await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": customer}})
        await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": customer}})
    keys, after = [], {}
    while True:
        page = await asked.get("/limits", size=2, **after)
        keys += [one["key"] for one in page["items"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert keys == ["sync.customer", "sync.customer=0", "sync.customer=1", "sync.customer=2"]


async def test_a_queue_is_paused_and_resumed(app: App, asked):
    await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}})
    assert await asked.post("/queues/crm/pause") == {"changed": True}
    assert await asked.post("/queues/crm/pause") == {"changed": False}
    (queue,) = await asked.get("/queues")
    assert (queue["name"], queue["paused"], queue["ready"]) == ("crm", True, 1)
    assert await app.run_until_idle() == 0
    assert await asked.post("/queues/crm/resume") == {"changed": True}
    assert await app.run_until_idle() == 1


async def test_workers_are_listed(app: App, asked):
    async with app.worker(name="w"):
        (worker,) = await asked.get("/workers")
    assert (worker["id"].startswith("w-"), worker["tasks"]) == (True, ["sync"])


async def test_the_audit_answers_whether_all_fits(asked):
    assert await asked.post("/audit") == {"ok": True, "problems": [], "repaired": []}


async def test_records_are_imported_each_alone(asked):
    ended = {"outcome": "succeeded", "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}
    records = [{"id": "old", "task": "sync", "args": {"customer": 1}, "attempts": [ended]}, {"id": "bad"}]
    taken, refused = await asked.post("/import", 200, {"records": records})
    assert (taken["id"], taken["state"]) == ("old", "succeeded")
    assert "task" in refused["refused"]
