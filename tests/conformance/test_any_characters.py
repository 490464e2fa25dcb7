"""Keys, ids, queues, tenants and payloads with any characters are kept apart and come back as they were."""

from __future__ import annotations

import pytest

from headgate.job import JobState
from headgate.keys import Key, Use
from tests.support.world import World

ODD = [
    "plain",
    "two words",
    " leading",
    "trailing ",
    "it's",
    'say "hi"',
    "a=b",
    "a=b=c",
    "=",
    "a:b",
    "c0:A",
    "line\nbreak",
    "tab\t",
    "nul\0nul",
    "nul\0",
    "\0",
    "emoji 🐍",
    "é",
    "e\u0301",
    "%",
    "a%b_",
    "{braces}",
    "[1]",
    "back\\slash",
    "'; DROP TABLE jobs; --",
    "0",
    "00",
    "NULL",
    "true",
]


async def test_keys_with_any_characters_are_kept_apart(world: World) -> None:
    await world.limit("A", 1)
    for number, value in enumerate(ODD):
        key = Key("A", value).ident
        for copy in "xy":
            job = world.job(f"{copy}{number}")
            await world.enqueue_all(type(job)(id=job.id, task="t", uses=(Use(key),)))
    assert await world.claim(100) == [f"x{number}" for number in range(len(ODD))]
    shown = {row.key for row in await world.engine.limits("A", now=world.now)} - {"A"}
    assert shown == {f"A={value}" for value in ODD}
    await world.end(*(f"x{number}" for number in range(len(ODD))))
    assert await world.claim(100) == [f"y{number}" for number in range(len(ODD))]


async def test_tenants_with_any_characters_are_kept_apart(world: World) -> None:
    await world.limit("A", 1)
    for number, tenant in enumerate(ODD):
        await world.enqueue(f"x{number}", "A", tenant=tenant)
        await world.enqueue(f"y{number}", "A", tenant=tenant)
    assert await world.claim(100) == [f"x{number}" for number in range(len(ODD))]


async def test_a_tenant_and_a_value_that_read_alike_together_are_kept_apart(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("bA", 1)
    await world.enqueue("j1", "A=x", tenant="ab")
    await world.enqueue("j2", "bA=x", tenant="a")
    await world.enqueue("j3", "A=x", tenant="a")
    assert await world.claim() == ["j1", "j2", "j3"]


async def test_a_bare_name_and_an_empty_value_are_two_keys(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("bare", "A")
    job = world.job("empty")
    await world.enqueue_all(type(job)(id="empty", task="t", uses=(Use(Key("A", "").ident),)))
    assert await world.claim() == ["bare", "empty"]


@pytest.mark.parametrize("text", ODD)
async def test_ids_queues_tasks_unique_keys_and_payloads_come_back_as_they_were(
    world: World, text: str
) -> None:
    await world.worker("w", tasks=[text])
    await world.enqueue(
        text, task=text, queue=text, tenant=text, unique=text, args=text, metadata=text, priority=1
    )
    await world.enqueue("another", task=text, queue=text + "x", unique=text)
    assert await world.claim(queues=[text]) == [text]
    await world.fail(text, error=text, retry=0)
    job = await world.get(text)
    assert (job.task, job.queue, job.tenant, job.unique, job.args, job.metadata, job.error) == (text,) * 7
    assert job.state is JobState.READY
    assert await world.engine.pause(text, now=world.now)
    assert await world.claim(queues=[text]) == []


@pytest.mark.parametrize("text", ODD)
async def test_an_override_of_a_key_with_any_characters_speaks_for_that_key(world: World, text: str) -> None:
    await world.limit("A", 1)
    await world.override(f"A={text}", 2, by=text, why=text)
    for value in (text, text + "x"):
        for number in range(3):
            job = world.job(f"{value}/{number}")
            await world.enqueue_all(type(job)(id=job.id, task="t", uses=(Use(Key("A", value).ident),)))
    assert len(await world.claim()) == 3
    assert await world.clear(f"A={text}")
