"""Records as dictionaries: what a web API returns."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter

from headgate import App, ConcurrencyLimit, JobInfo, JobState, LimitInfo, Retry
from headgate.testing import Clock


@pytest.fixture
def shop(clock: Clock) -> App:
    app = App("memory://", clock=clock)

    @app.task(limits=[ConcurrencyLimit(1, scope="till")], retry=Retry(attempts=2, delay=1.5))
    async def sell(what: str) -> list[str]:
        if what == "nothing":
            raise ValueError("sold out")
        return [what]

    return app


async def records(app: App) -> list[Any]:
    """One of each that a program gets."""
    for what in ("bread", "nothing"):
        await app.tasks["sell"].options(tenant="acme", metadata={"at": "till 3"}).enqueue(what)
    await app.run_until_idle()
    for one in await app.jobs():
        await app.cancel(one.id) if one.state == "scheduled" else await app.delete(one.id)
    job = await app.tasks["sell"].options(delay=5).enqueue("milk")
    await app.set_limit("till", 3, by="ops", until=60)
    await app.pause("default")
    return [
        await job.info(),
        *await app.jobs(),
        *await app.limits(),
        *await app.queues(),
        await job.explain(),
        await app.cancel(["gone", job.id]),
        await app.audit(),
        await anext(aiter(job.stream())),
    ]


def plain(value: Any) -> bool:
    """Whether a value is one of those that every JSON encoder takes."""
    match value:
        case dict():
            return all(type(key) is str and plain(one) for key, one in value.items())
        case list():
            return all(plain(one) for one in value)
        case _:
            return type(value) in (str, int, float, bool, type(None))


async def test_every_record_is_a_dictionary_of_its_fields_in_plain_values(shop: App):
    for record in await records(shop):
        shape = record.to_dict()
        assert plain(shape), shape
        assert json.loads(json.dumps(shape)) == shape
        assert list(shape) == [*(["ok"] if hasattr(record, "ok") else []), *record.__struct_fields__]


async def test_times_are_texts_with_their_zone_and_delays_are_seconds(shop: App, clock: Clock):
    job = await shop.tasks["sell"].enqueue("bread")
    shape = (await job.info()).to_dict()
    assert datetime.fromisoformat(shape["enqueued_at"]) == clock.now()
    assert shape["retry"]["delay"] == 1.5
    assert (shape["state"], shape["args"], shape["limits"]) == ("ready", {"what": "bread"}, ["till"])


async def test_pydantic_writes_every_record_as_its_dictionary_and_knows_its_schema(shop: App):
    for record in await records(shop):
        adapter = TypeAdapter[Any](type(record))
        assert adapter.dump_python(adapter.validate_python(record), mode="json") == record.to_dict()
        schema = adapter.json_schema(mode="serialization")
        assert list(schema["properties"]) == list(record.to_dict())
        assert "$ref" not in json.dumps(schema)
        for name, value in record.to_dict().items():
            assert fits(value, schema["properties"][name]), name


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema says, as far as types go."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if isinstance(value, dict) and "properties" in schema:
        return all(fits(each, schema["properties"][name]) for name, each in value.items())
    names = {
        "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list,
        "object": dict,
    }  # fmt: skip
    return "type" not in schema or isinstance(value, names[schema["type"]])


async def test_a_record_may_be_the_response_model_of_a_route(shop: App):
    api = FastAPI()

    @api.get("/jobs/{id}")
    async def one(id: str) -> JobInfo:
        return await shop.handle(id).info()

    @api.get("/limits")
    async def limits() -> list[LimitInfo]:
        return await shop.limits()

    job = await shop.tasks["sell"].enqueue("bread")
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get(f"/jobs/{job.id}")).json() == (await job.info()).to_dict()
        assert (await client.get("/limits")).json() == [limit.to_dict() for limit in await shop.limits()]
        routes = (await client.get("/openapi.json")).json()["paths"]
    shown = routes["/jobs/{id}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert shown["properties"]["state"]["enum"] == sorted(JobState)
    assert shown["properties"]["retry"]["properties"]["delay"] == {"type": "number"}


async def test_a_web_framework_returns_them(shop: App):
    api = FastAPI()

    @api.get("/jobs")
    async def jobs() -> list[dict[str, Any]]:
        return [job.to_dict() for job in await shop.jobs()]

    job = await shop.tasks["sell"].enqueue("bread")
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.get("/jobs")
    assert answer.json() == [(await job.info()).to_dict() | {"attempts": []}]
