from __future__ import annotations

import asyncio

from headgate import App
from headgate.app.remote_work import RemoteReport


async def register(asked, **more) -> str:
    body = {"tasks": ["sync"], "concurrency": 5, **more}
    return (await asked.post("/work", 201, body))["worker"]


async def enqueue(asked, customer: int, **more) -> str:
    return (await asked.post("/jobs", 201, {"task": "sync", "args": {"customer": customer}, **more}))["id"]


def succeeded(attempt, result):
    return {"job": attempt["job"], "attempt": attempt["attempt"], "outcome": "succeeded", "result": result}


async def test_a_program_works_under_limits(app: App, asked):
    first, second = await enqueue(asked, 1), await enqueue(asked, 1)
    worker = await register(asked)
    answer = await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 5})
    (attempt,) = answer["attempts"]
    assert (attempt["job"], attempt["args"], attempt["retry_in"]) == (
        first,
        {"customer": 1},
        attempt["retry_in"],
    )
    body = {"number": 2, "want": 5, "reports": [succeeded(attempt, {"ok": True})]}
    answer = await asked.post(f"/work/{worker}/exchange", 200, body)
    assert ([one["job"] for one in answer["attempts"]], answer["refused"]) == ([second], [])
    assert (await asked.get(f"/jobs/{first}"))["result"] == {"ok": True}
    await asked("DELETE", f"/work/{worker}", 200)
    assert (await asked.get(f"/jobs/{second}"))["state"] == "ready"


async def test_an_old_message_changes_nothing(asked):
    await enqueue(asked, 1)
    worker = await register(asked)
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 2})
    refused = await asked.post(f"/work/{worker}/exchange", 409, {"number": 2, "want": 1})
    assert refused["type"] == "/problems/stale-message"
    assert (await asked.get("/queues"))[0]["running"] == 0


async def test_after_a_lost_answer_the_worker_and_the_store_agree(asked):
    lost, kept = await enqueue(asked, 1), await enqueue(asked, 2)
    worker = await register(asked)
    claimed = (await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 2}))["attempts"]
    known = [[one["job"], one["attempt"]] for one in claimed if one["job"] == kept]
    answer = await asked.post(f"/work/{worker}/resume", 200, {"number": 2, "known": known})
    assert (answer["alive"], answer["taken_back"]) == ([[kept, 1]], 1)
    assert (await asked.get(f"/jobs/{lost}"))["state"] == "ready"


async def test_the_policy_says_when_a_failure_is_tried_again(asked):
    body = {
        "task": "sync",
        "args": {"customer": 1},
        "retry": {"attempts": 2, "delay": 5, "backoff": 1, "jitter": 0},
    }
    job = (await asked.post("/jobs", 201, body))["id"]
    worker = await register(asked)
    (attempt,) = (await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 1}))["attempts"]
    assert attempt["retry_in"] == 5
    report = {
        "job": job, "attempt": 1, "outcome": "failed", "error": "Timeout: no answer", "retry_in": attempt["retry_in"],
    }  # fmt: skip
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 2, "reports": [report]})
    shown = await asked.get(f"/jobs/{job}")
    assert (shown["state"], shown["error"]) == ("scheduled", "Timeout: no answer")


async def test_a_cancel_reaches_the_program(asked):
    job = await enqueue(asked, 1)
    worker = await register(asked)
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 1})
    await asked.post(f"/jobs/{job}/cancel")
    assert (await asked.post(f"/work/{worker}/heartbeat"))["cancelling"] == [job]
    stopped = {"job": job, "attempt": 1, "outcome": "cancelled"}
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 2, "reports": [stopped]})
    assert (await asked.get(f"/jobs/{job}"))["state"] == "cancelled"


async def test_a_report_about_another_attempt_is_refused(asked):
    job = await enqueue(asked, 1)
    worker = await register(asked)
    late = {"job": job, "attempt": 7, "outcome": "succeeded"}
    answer = await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "reports": [late]})
    assert answer["refused"] == [[job, 7]]


async def test_an_idle_program_is_answered_when_there_is_work(asked):
    worker = await register(asked)
    exchange = f"/work/{worker}/exchange"
    waiting = asyncio.create_task(asked.post(exchange, 200, {"number": 1, "want": 1, "wait": 60}))
    await asyncio.sleep(0)
    job = await enqueue(asked, 1)
    async with asyncio.timeout(30):
        claimed = (await waiting)["attempts"]
    claimed += (await asked.post(exchange, 200, {"number": 2, "want": 1}))["attempts"]
    assert [one["job"] for one in claimed] == [job]


async def test_progress_is_seen_while_the_program_works(asked):
    job = await enqueue(asked, 1)
    worker = await register(asked)
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 1})
    report = {"job": job, "attempt": 1, "outcome": "progress", "value": {"done": 0.5}}
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 2, "reports": [report]})
    assert (await asked.get(f"/jobs/{job}"))["progress"] == {"done": 0.5}


async def test_what_programs_do_stands_in_the_history(asked):
    failing, fine = await enqueue(asked, 1), await enqueue(asked, 2)
    worker = await register(asked)
    claimed = (await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 2}))["attempts"]
    assert {one["job"] for one in claimed} == {failing, fine}
    reports = [
        {"job": failing, "attempt": 1, "outcome": "failed", "error": "broken"},
        {"job": fine, "attempt": 1, "outcome": "progress", "value": 1},
        {"job": fine, "attempt": 1, "outcome": "succeeded"},
        {"job": "another", "attempt": 1, "outcome": "succeeded"},
    ]
    await asked.post(f"/work/{worker}/exchange", 200, {"number": 2, "reports": reports})
    await asked.post(f"/work/{worker}/heartbeat")
    (done,) = await asked.get("/history", each=True)
    assert (done["queue"], done["task"]) == ("crm", "sync")
    assert (done["started"], done["succeeded"], done["failed"]) == (2, 1, 1)


async def test_a_lease_that_is_gone_says_so(asked):
    worker = await register(asked)
    await asked("DELETE", f"/work/{worker}", 200)
    assert (await asked.post(f"/work/{worker}/heartbeat", 409))["type"] == "/problems/lease-lost"
    refused = await asked.post(f"/work/{worker}/exchange", 409, {"number": 1, "want": 1})
    assert refused["type"] == "/problems/lease-lost"


async def test_what_no_worker_can_be_is_refused(asked):
    assert "from 5 to 3600" in (await asked.post("/work", 422, {"tasks": ["sync"], "lease": 1}))["detail"]
    assert "names the tasks" in (await asked.post("/work", 422, {"tasks": []}))["detail"]
    worker = await register(asked)
    for wrong in ({"number": 0}, {"number": 1, "want": -1}, {"number": 1, "want": 10**9}):
        await asked.post(f"/work/{worker}/exchange", 422, wrong)
    snoozed = {"number": 1, "reports": [{"job": "x", "attempt": 1, "outcome": "snoozed"}]}
    assert "needs delay" in (await asked.post(f"/work/{worker}/exchange", 422, snoozed))["detail"]


async def test_reports_name_limits_that_the_job_has(asked):
    limits = [{"kind": "rate", "name": "tokens", "max": 100, "per": 60}, {"name": "crm", "max": 5}]
    body = {"task": "elsewhere", "args": {}, "raw": True, "limits": limits}
    job = (await asked.post("/jobs", 201, body))["id"]
    worker = await register(asked, tasks=["elsewhere"])
    (attempt,) = (await asked.post(f"/work/{worker}/exchange", 200, {"number": 1, "want": 1}))["attempts"]
    assert sorted(attempt["limits"]) == ["crm", "tokens"]

    async def report(number: int, status: int, **said):
        one = {"job": job, "attempt": 1, **said}
        return await asked.post(f"/work/{worker}/exchange", status, {"number": number, "reports": [one]})

    refused = await report(2, 422, outcome="spent", limit="tokns", units=5)
    assert "has no rate limit 'tokns'; it has tokens" in refused["detail"]
    refused = await report(2, 422, outcome="throttled", limit="tokns", delay=5)
    assert "it has crm, tokens" in refused["detail"]
    await report(2, 200, outcome="spent", limit="tokens", units=5)
    assert (await report(3, 200, outcome="throttled", limit="crm", delay=5))["refused"] == []


async def test_a_job_that_cannot_be_opened_fails_at_once(tmp_path, headgate_app):
    class Codec:
        def encode(self, data: bytes) -> bytes:
            return data[::-1]

        def decode(self, data: bytes) -> bytes:
            return data[::-1]

    url = f"sqlite:///{tmp_path}/jobs.db"
    app, plain = headgate_app(App(url, codec=Codec()), url=url), headgate_app(url=url)
    sealed = await app.enqueue(app.raw_job("t", {"a": 1}))
    worker = (await plain.remote_work.register(["t"])).worker
    assert (await plain.remote_work.exchange(worker, 1, want=5)).attempts == ()
    info = await sealed.info()
    assert (info.state, "has no codec" in (info.error or "")) == ("failed", True)


async def test_payloads_of_programs_are_sealed_and_opened_by_the_server(store_url, headgate_app):
    class Codec:
        def encode(self, data: bytes, context) -> bytes:
            return bytes(context) + data

        def decode(self, data: bytes, context) -> bytes:
            return data.removeprefix(bytes(context))

    app = headgate_app(App(store_url, codec=Codec()), url=store_url)
    job = await app.enqueue(app.raw_job("t", {"a": 1}))
    worker = (await app.remote_work.register(["t"])).worker
    (attempt,) = (await app.remote_work.exchange(worker, 1, want=5)).attempts
    assert attempt.args == {"a": 1}
    report = RemoteReport(job=job.id, attempt=1, outcome="succeeded", result=[2])
    await app.remote_work.exchange(worker, 2, [report])
    assert await job.result() == [2]
