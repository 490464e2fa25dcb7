from __future__ import annotations

import httpx
import pytest

from headgate import App, ConfigError
from headgate.web import Tokens, asgi, new_token
from headgate.web.asgi import ROUTES
from headgate.web.auth import Answer
from headgate.web.roles import RIGHTS, ROLES, Role

ON_MEMORY = pytest.mark.parametrize("store_url", ["memory"], indirect=True)


@ON_MEMORY
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_its_rights_say_and_no_more(asking, role: Role):
    asked = asking(role)
    for route in ROUTES:
        path = route.path.replace("{id:path}", "x").replace("{id}", "x").replace("{name:path}", "q")
        path = path.replace("{key:path}", "k")
        if route.media_type == "text/event-stream" and route.right in RIGHTS[role] and "{" not in route.path:
            continue  # a stream does not end
        answer = await asked.client.request(route.method, path, json={} if route.body else None)
        assert (answer.status_code == 403) == (route.right not in RIGHTS[role]), f"{route.method} {path}"


@ON_MEMORY
async def test_a_stranger_is_asked_for_a_token(asking):
    stranger = asking(None)
    refused = await stranger.get("/jobs", 401)
    assert refused["detail"].startswith("a token is needed")
    assert stranger.headers["www-authenticate"].startswith("Bearer")
    for header in ("Bearer wrong-secret-wrong", "Basic abc", "Bearer"):
        await stranger("GET", "/jobs", 401, headers={"Authorization": header})


@ON_MEMORY
async def test_secrets_cannot_be_tried_out(asking):
    stranger, friend = asking(None), asking("read")
    for _ in range(10):
        await stranger("GET", "/jobs", 401, headers={"Authorization": "Bearer a-wrong-secret-again"})
    refused = await friend.get("/jobs", 429)
    assert "too many wrong secrets" in refused["detail"]
    assert int(friend.headers["retry-after"]) > 0


def asked_locally(app: App, host: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(asgi(app), client=(host, 5000))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/api/v1")


@ON_MEMORY
async def test_without_tokens_only_this_machine_may_ask(app: App):
    async with asked_locally(app) as local:
        assert (await local.get("/jobs")).status_code == 200
        assert (await local.get("/jobs", headers={"X-Forwarded-For": "10.0.0.1"})).status_code == 401
        assert (await local.get("/jobs", headers={"Host": "elsewhere.example"})).status_code == 401
    async with asked_locally(app, "10.0.0.1") as remote:
        assert (await remote.get("/jobs")).status_code == 401


@ON_MEMORY
async def test_a_page_of_another_site_changes_nothing(app: App):
    async with asked_locally(app) as local:
        other = {"Origin": "http://elsewhere.example"}
        assert (await local.post("/queues/q/pause", headers=other)).status_code == 403
        assert (
            await local.post("/queues/q/pause", headers={"Sec-Fetch-Site": "cross-site"})
        ).status_code == 403
        assert (
            await local.post("/queues/q/pause", headers={"Origin": "http://localhost"})
        ).status_code == 200
    assert [queue.name for queue in await app.queues()] == ["q"]


@ON_MEMORY
async def test_the_applications_own_login_decides(app: App):
    def role(request) -> Answer:
        user = request.headers.get("x-user")
        return ("ada", "operate") if user == "ada" else "read" if user == "eve" else None

    transport = httpx.ASGITransport(asgi(app, auth=role))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
        assert (await client.get("/queues")).status_code == 401
        assert (await client.get("/queues", headers={"x-user": "eve"})).status_code == 200
        assert (await client.post("/queues/q/pause", headers={"x-user": "eve"})).status_code == 403
        assert (await client.post("/queues/q/pause", headers={"x-user": "ada"})).status_code == 200


@ON_MEMORY
async def test_a_server_that_only_looks_changes_nothing(app: App):
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(asgi(app, read_only=True), client=("127.0.0.1", 1)),
        base_url="http://localhost/api/v1",
    ) as client:
        assert (await client.get("/queues")).status_code == 200
        refused = await client.post("/queues/q/pause")
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/read-only")


@ON_MEMORY
async def test_payloads_are_hidden_from_readers_and_redacted_for_all(app: App):
    def redact(job, who):
        return {**job, "task": f"seen by {who.name}"}

    tokens = Tokens(["r:read:0123456789abcdef-r", "o:operate:0123456789abcdef-o"], "the test")
    transport = httpx.ASGITransport(asgi(app, auth=tokens, hide_payloads=True, redact=redact))
    await app.tasks["sync"].options(id="j", metadata={"m": 1}).enqueue(1, note="fail")
    await app.run_until_idle()
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api/v1") as client:
        seen = {
            name: (
                await client.get("/jobs/j", headers={"Authorization": f"Bearer 0123456789abcdef-{name}"})
            ).json()
            for name in "ro"
        }
    assert (seen["r"]["args"], seen["r"]["metadata"], seen["r"]["error"]) == ("hidden",) * 3
    assert seen["r"]["attempts"][0]["error"] == "hidden"
    assert (seen["o"]["args"], seen["o"]["metadata"]) == ({"customer": 1, "note": "fail"}, {"m": 1})
    assert (seen["r"]["task"], seen["o"]["task"]) == ("seen by r", "seen by o")


@ON_MEMORY
async def test_a_body_that_is_too_large_or_no_json_is_refused(asked):
    large = await asked.client.post("/jobs", content=b" " * (4 * 1024 * 1024 + 1))
    assert (large.status_code, large.json()["type"]) == (413, "/problems/too-large")
    text = await asked.client.post("/jobs", content=b"task=sync", headers={"content-type": "text/plain"})
    assert (text.status_code, text.json()["type"]) == (415, "/problems/media-type")


@ON_MEMORY
async def test_what_stands_nowhere_is_not_found_and_a_wrong_method_named(asked):
    assert (await asked.get("/nothing", 404))["type"] == "/problems/not-found"
    await asked("PATCH", "/jobs", 405)
    assert asked.headers["allow"] == "GET, POST"


def test_a_new_token_is_kept_as_its_hash():
    secret, line = new_token("ada:operate")
    assert secret not in line
    tokens = Tokens([line], "the file")
    known = tokens.identity(secret)
    assert known is not None
    assert (known.name, known.role) == ("ada", "operate")
    assert tokens.identity(secret[:-1]) is None


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("ada:operate", "NAME:ROLE:SECRET is needed"),
        ("ada:boss:0123456789abcdef", "one of read, operate, work, admin"),
        ("ada:read:short", "at least 16 characters"),
        (":read:0123456789abcdef", "NAME:ROLE:SECRET is needed"),
    ],
)
def test_a_wrong_token_is_refused_without_showing_its_secret(entry: str, text: str):
    with pytest.raises(ConfigError, match=text) as refused:
        Tokens([entry], "the file")
    assert entry.rpartition(":")[2] not in str(refused.value) or entry.count(":") < 2


@ON_MEMORY
async def test_every_change_is_written_down_with_its_author(asking, caplog: pytest.LogCaptureFixture):
    asked = asking("operate")
    with caplog.at_level("INFO", "headgate.web"):
        await asked("PUT", "/limits/sync.customer=1/override", 200, {"max": 3, "why": "a big\none"})
        await asked.post("/jobs/cancel", 200, {"filter": {"queue": "crm"}})
        await asked.post("/queues/a%0Ab%1B[1m/pause")
        await asked.post("/queues/crm/pause?x=1", 422)
        await asked.get("/queues")
    lines = [record.getMessage() for record in caplog.records if record.name == "headgate.web"]
    who = "operate-person (operate):"
    assert lines == [
        f'{who} PUT /api/v1/limits/sync.customer=1/override {{"max":3,"why":"a big\\\\none","until":null}}',
        f'{who} POST /api/v1/jobs/cancel {{"queue":"crm"}}',
        f"{who} POST /api/v1/queues/a\\nb\\x1b[1m/pause",
    ]


@ON_MEMORY
async def test_what_workers_exchange_all_the_time_is_no_news(asking, caplog: pytest.LogCaptureFixture):
    asked = asking("work")
    with caplog.at_level("INFO", "headgate.web"):
        worker = (await asked.post("/work", 201, {"tasks": ["sync"]}))["worker"]
        await asked.post(f"/work/{worker}/exchange", 200, {"number": 1})
        await asked.post(f"/work/{worker}/heartbeat")
    assert [record.getMessage() for record in caplog.records if record.name == "headgate.web"] == [
        "work-person (work): POST /api/v1/work"
    ]
