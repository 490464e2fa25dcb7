from __future__ import annotations

import asyncio
import html
import json
import re

import httpx
import pytest

from headgate import App, ConcurrencyLimit, Retry
from headgate.testing import Clock
from headgate.web import Tokens, asgi
from tests.web.conftest import SECRETS, TOKENS

PAGES = [
    "/",
    "/limits",
    "/limits?keys=1",
    "/jobs",
    "/jobs?state=failed",
    "/jobs?state=failed,ready&error=customer&since=3600",
    "/failed",
    "/failed?since=3600&task=sync",
    "/queues",
    "/schedules",
    "/workers",
    "/sql",
    "/?span=24h",
    "/key?key=sync.customer=1",
    "/key?key=sync.customer=1&tenant=acme",
    "/key?key=sync.customer",
    "/key?key=unheard-of",
]
ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


@pytest.fixture
async def reader(app: App):
    """A browser on this machine."""
    transport = httpx.ASGITransport(asgi(app), client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def fill(app: App) -> dict[str, str]:
    """A job in nearly every state; their ids."""
    sync = app.tasks["sync"]
    jobs = {
        "succeeded": await sync.enqueue(0),
        "failed": await sync.enqueue(9, note="fail"),
    }
    await app.run_until_idle()
    jobs["ready"] = await sync.enqueue(1)
    jobs["waiting"] = await sync.options(tenant=None).enqueue(1)
    jobs["scheduled"] = await sync.options(delay=60).enqueue(2)
    return {state: job.id for state, job in jobs.items()}


async def every_page_is_shown(reader: httpx.AsyncClient) -> None:
    for page in PAGES:
        answer = await reader.get(page)
        assert answer.status_code == 200, answer.text


async def test_every_page_is_shown_for_an_empty_store_and_a_full_one(app: App, reader):
    await every_page_is_shown(reader)
    jobs = await fill(app)
    await every_page_is_shown(reader)
    for state, id in jobs.items():
        answer = await reader.get(f"/jobs/{id}")
        assert (answer.status_code, f'chip {state}"' in answer.text) == (200, True), answer.text


async def test_a_waiting_job_is_explained_with_its_keys(app: App, reader):
    jobs = await fill(app)
    text = (await reader.get(f"/jobs/{jobs['waiting']}")).text
    assert re.search(r"It waits on <a [^>]+>sync.customer=1</a>", text)
    assert 'aria-label="no room"' in text, "the light of its key"
    assert "POST /jobs/" in text, "it can be cancelled"


async def test_shares_are_shown_with_their_weights_and_jobs(app: App, reader):
    app.queue("ai", share_by="tenant", weights={"acme": 2})

    @app.task(queue="ai")
    async def ask() -> None: ...

    for number in range(55):
        await ask.options(tenant=f"t{number:02}").enqueue()
    await app.set_share("t00", 0.5, by="ops", why="a crawler", until=60)
    text = (await reader.get("/queues")).text
    assert re.search(r"ops <span class=\"muted\">a crawler,\s+until", text)
    assert "t47" in text
    assert "t54" not in text
    (after,) = re.findall(r"/queues\?after=[^\"&]+", text)
    assert "t54" in (await reader.get(after)).text


async def test_a_key_says_what_happens_where_there_is_no_room(app: App, reader):
    @app.task(limits=[ConcurrencyLimit("user", max_concurrent=1, scope="user", max_waiting=5)])
    async def work(user: int) -> None: ...

    await work.enqueue(1)
    await work.enqueue(1)
    text = (await reader.get("/key?key=user=1")).text
    assert "at most 5 waiting, beyond that newcomers are refused" in text


@ON_MEMORY
async def test_what_users_say_is_shown_and_not_run(app: App, reader):
    evil = "<script>alert(1)</script>"
    job = (
        await app.tasks["sync"].options(tenant=evil, unique=evil, metadata={"m": evil}).enqueue(1, note=evil)
    )
    await app.pause(evil)
    for page in (f"/jobs/{job.id}", "/jobs", "/queues", "/", f"/key?key={evil}", f"/jobs?queue={evil}"):
        text = (await reader.get(page)).text
        assert "alert(1)" in text
        assert evil not in text


@ON_MEMORY
async def test_a_part_of_a_page_renews_alone(reader):
    whole, part = await reader.get("/jobs"), await reader.get("/jobs", headers={"x-headgate-part": "1"})
    assert "<html" in whole.text
    assert "<html" not in part.text
    assert "There is no job yet" in part.text


@ON_MEMORY
async def test_a_page_runs_no_script_but_its_own(reader):
    answer = await reader.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=|javascript:", answer.text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text), "nothing comes from another host"
    for source in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", answer.text):
        assert (await reader.get(source)).status_code == 200


@ON_MEMORY
async def test_words_lead_to_jobs_keys_queues_and_tasks(app: App, reader):
    jobs = await fill(app)
    for word, target in {
        jobs["failed"]: f"/jobs/{jobs['failed']}", "sync.customer=1": "/key?key=sync.customer%3D1",
        "sync.customer": "/key?key=sync.customer", "crm": "/jobs?queue=crm", "sync": "/jobs?task=sync", "": "/",
    }.items():  # fmt: skip
        answer = await reader.get("/find", params={"q": word})
        assert (answer.status_code, answer.headers["location"]) == (303, target)


@ON_MEMORY
async def test_what_is_not_there_is_said_on_a_page(reader):
    answer = await reader.get("/jobs/none")
    assert (answer.status_code, "there is no job" in answer.text) == (404, True)
    assert (await reader.get("/jobs?state=rady")).status_code == 422


@pytest.fixture
async def browser(app: App):
    """A browser that has to log in."""
    transport = httpx.ASGITransport(asgi(app, auth=TOKENS))
    async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
        yield client


async def log_in(browser, role: str) -> httpx.Response:
    return await browser.post("/login", data={"secret": SECRETS[role], "next": "/jobs?state=failed"})


@ON_MEMORY
async def test_a_stranger_logs_in_and_comes_back(browser):
    away = await browser.get("/jobs?state=failed")
    assert away.headers["location"] == "/login?next=%2Fjobs%3Fstate%3Dfailed"
    wrong = await browser.post("/login", data={"secret": "not-the-right-one"})
    assert (wrong.status_code, "no token has this secret" in wrong.text) == (401, True)
    answer = await log_in(browser, "operate")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?state=failed")
    cookie = answer.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Secure"))
    assert SECRETS["operate"] not in cookie
    assert "operate-person, operate" in (await browser.get("/")).text


@ON_MEMORY
@pytest.mark.parametrize(
    "target", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example"]
)
async def test_a_login_leads_to_no_other_site(browser, target: str):
    answer = await browser.post("/login", data={"secret": SECRETS["read"], "next": target})
    assert answer.headers["location"] == "/"


@ON_MEMORY
async def test_a_change_from_a_session_needs_the_pages_own_token(browser):
    await log_in(browser, "operate")
    page = (await browser.get("/")).text
    found = re.search(r'data-csrf="(\w+)"', page)
    assert found is not None
    assert (await browser.post("/api/v1/queues/q/pause")).status_code == 403
    wrong = await browser.post("/api/v1/queues/q/pause", headers={"x-headgate-csrf": "0" * 64})
    assert wrong.status_code == 403
    right = await browser.post("/api/v1/queues/q/pause", headers={"x-headgate-csrf": found[1]})
    assert right.status_code == 200


@ON_MEMORY
async def test_a_reader_is_offered_no_changes(app: App, browser):
    jobs = await fill(app)
    await log_in(browser, "read")
    for page in (*PAGES, f"/jobs/{jobs['ready']}", f"/jobs/{jobs['failed']}"):
        text = (await browser.get(page)).text
        assert not re.search("data-(do|api|verb|opens)=", text), page


@ON_MEMORY
async def test_sql_is_for_admins(app: App, browser):
    await log_in(browser, "operate")
    answer = await browser.get("/sql")
    assert (answer.status_code, "SQL needs admin" in answer.text) == (403, True)
    assert 'href="/sql"' not in (await browser.get("/")).text


@ON_MEMORY
async def test_logging_out_ends_the_session(browser):
    await log_in(browser, "read")
    found = re.search(r'name="csrf" value="(\w+)"', (await browser.get("/")).text)
    assert found is not None
    await browser.post("/logout", data={"csrf": found[1]})
    assert (await browser.get("/")).status_code == 303


@ON_MEMORY
async def test_a_changed_cookie_speaks_for_no_one(browser):
    await log_in(browser, "read")
    name, value = next(iter(browser.cookies.items()))
    body, _, signature = value.partition(".")
    for wrong in (f"{body[:-2]}AA.{signature}", f"{body}.{signature[:-1]}0", "x", "é.é"):
        browser.cookies.clear()
        answer = await browser.get("/", headers={"Cookie": f"{name}={wrong}".encode()})
        assert answer.status_code == 303


@ON_MEMORY
async def test_payloads_are_hidden_on_pages_too(app: App):
    @app.task
    async def tell(secret: str) -> None:
        raise ValueError(f"secret-{secret} is wrong")

    tokens = Tokens(["r:read:0123456789abcdef-r"], "the test")
    job = await app.tasks["sync"].options(metadata={"m": "secret-m"}).enqueue(1, note="secret-note")
    told = await tell.enqueue("word")
    await app.run_until_idle()
    transport = httpx.ASGITransport(asgi(app, auth=tokens, hide_payloads=True))
    headers = {"Authorization": "Bearer 0123456789abcdef-r"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        pages = (f"/jobs/{job.id}", f"/jobs/{told.id}", "/failed", "/", "/jobs?state=failed")
        texts = [(await client.get(page)).text for page in pages]
    assert not [page for page, text in zip(pages, texts, strict=True) if "secret-" in text]
    assert all("hidden" in text for text in texts)


@ON_MEMORY
async def test_a_jobs_attempts_stand_on_one_line_of_time(app: App, reader, headgate_clock: Clock):
    @app.task(retry=Retry(attempts=3, delay=10, jitter=0))
    async def call() -> None:
        headgate_clock.advance(5)
        raise ValueError("nobody answers")

    job = await call.enqueue()
    await app.run_until_idle()
    headgate_clock.advance(10)
    await app.run_until_idle()
    text = (await reader.get(f"/jobs/{job.id}")).text
    bars = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="4" width="([\d.]+)"', text)
    assert [kind for kind, _, _ in bars] == ["failed", "failed", "scheduled"]
    assert [float(at) for _, at, _ in bars] == sorted(float(at) for _, at, _ in bars)
    assert all(float(at) + float(wide) <= 100.01 for _, at, wide in bars)
    assert text.count("<details") == 3, "each error is folded, and the last one again"
    assert "1 of 3" not in text
    assert "2 of 3 tries used" in text


@ON_MEMORY
async def test_failures_of_one_cause_are_restarted_together(app: App, reader):
    sync = app.tasks["sync"]
    await app.enqueue_many([sync.job(n, note="fail") for n in range(3)])
    await app.run_until_idle()
    text = (await reader.get("/failed")).text
    found = re.search(r'data-do="POST /jobs/restart"[^>]* data-body="([^"]+)"', text)
    assert found is not None
    body = json.loads(html.unescape(found[1]))
    answer = await reader.post("/api/v1/jobs/restart", json=body)
    assert answer.json()["done"] == 3


@ON_MEMORY
async def test_many_browsers_share_a_reading(app: App, reader):
    await fill(app)
    asked: list[str] = []
    whole = app.totals

    async def counted(**given):
        asked.append("totals")
        return await whole(**given)

    app.totals = counted
    try:
        await asyncio.gather(*(reader.get("/") for _ in range(20)))
    finally:
        del app.totals
    assert len(asked) == 1


@ON_MEMORY
async def test_an_own_change_is_seen_at_once(app: App, reader):
    await fill(app)
    assert 'class="chip paused"' not in (await reader.get("/queues")).text
    await reader.post("/api/v1/queues/crm/pause")
    assert 'class="chip paused"' in (await reader.get("/queues")).text
