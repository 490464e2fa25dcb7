"""Fair shares and full backlogs over HTTP."""

from __future__ import annotations

from headgate import App, ConcurrencyLimit


async def test_shares_are_listed_weighed_and_cleared(app: App, asked, asking):
    app.queue("crm", share_by="tenant")
    await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 1}, "tenant": "acme", "expires": 60})
    operator = asking("operate")
    assert await operator("PUT", "/shares/acme/weight", 200, {"weight": 3, "why": "a big one"}) == {
        "changed": True
    }
    page = await asked.get("/shares")
    (share,) = page["items"]
    assert (share["share"], share["weight"], share["pending"]) == ("acme", 3, 1)
    assert share["override"]["by"] == "operate-person"
    assert await operator("DELETE", "/shares/acme/weight", 200) == {"changed": True}
    assert await operator("DELETE", "/shares/acme/weight", 200) == {"changed": False}
    await operator("PUT", "/shares/acme/weight", 422, {"weight": 0})


async def test_a_full_backlog_answers_429(app: App, asked):
    @app.task(limits=[ConcurrencyLimit(1, scope="s", max_waiting=1)])
    async def work() -> None: ...

    for _ in range(2):
        await asked.post("/jobs", 201, {"task": "work"})
    problem = await asked.post("/jobs", 429, {"task": "work"})
    assert problem["type"] == "/problems/backlog-full"
    assert "max_waiting=1" in problem["detail"]


async def test_jobs_say_what_becomes_of_them(app: App, asked):
    body = {
        "task": "sync",
        "args": {"customer": 1},
        "unique": "k",
        "on_conflict": "update",
        "delay": 5,
        "at_most": 9,
    }
    first = await asked.post("/jobs", 201, body)
    again = await asked.post("/jobs", 200, body | {"args": {"customer": 2}})
    assert (again["id"], again["created"]) == (first["id"], False)
    assert (await asked.get(f"/jobs/{first['id']}"))["args"] == {"customer": 2}
    await asked.post("/jobs", 422, body | {"unique_for": 5})
    until = "2030-01-31T08:00:00Z"
    job = await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": 3}, "expires": until})
    assert (await asked.get(f"/jobs/{job['id']}"))["expires"] == until
