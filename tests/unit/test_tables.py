"""Virtual tables over a source that reads on an event loop: what is handed down, what is read, how a question ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import TABLES, Filter
from headgate.engine.memory import MemoryEngine
from headgate.engine.tables import VerbSource, ask
from headgate.errors import ConfigError, EngineUnavailable
from headgate.job import Job, NewJob
from tests.support.waiting import turns

COLUMNS = {table.name: [column.name for column in table.columns] for table in TABLES}


def row(table: str, **fields: Any) -> tuple[Any, ...]:
    """A row of which only some columns matter."""
    return tuple(fields.get(column) for column in COLUMNS[table])


class Pages:
    """A source that notes what it is asked for, and gives pages of ten jobs as if each came from afar."""

    def __init__(self, count: int = 35) -> None:
        self.count = count
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.read = 0
        self.began = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def pages(self, table: str, wanted: Mapping[str, str]) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
        self.asked.append((table, dict(wanted)))
        self.began.set()
        for first in range(0, self.count, 10):
            await asyncio.sleep(0)
            await self.gate.wait()
            self.read += 1
            some = range(first, min(first + 10, self.count))
            yield [row(table, id=f"j{n}", state="ready", queue=f"q{n % 2}", priority=n) for n in some]


async def select(
    source: Any, sql: str, limit: int = 1000, timeout: int = 10 * SECOND
) -> list[tuple[Any, ...]]:
    return [*(await ask(source, sql, limit, timeout)).rows]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("id = 'j3'", [{"id": "j3"}]),
        ("state = 'ready' and queue = 'q1'", [{"state": "ready", "queue": "q1"}]),
        ("id in ('j3', 'j4')", [{"id": "j3"}, {"id": "j4"}]),
        ("priority = 3", [{}]),
        ("id > 'j3'", [{}]),
        ("id = 'j3' or state = 'waiting'", [{"id": "j3"}, {"state": "waiting"}]),
        ("id = 'j3' and id = 'j4'", []),
        ("id = null", []),
    ],
)
async def test_conditions_by_which_a_store_finds_rows_are_handed_to_it(
    condition: str, wanted: list[dict[str, str]]
):
    source = Pages()
    await select(source, f"select id from jobs where {condition}")
    assert sorted((dict(one) for _, one in source.asked), key=str) == wanted


async def test_rows_that_a_source_gives_too_many_are_left_out():
    assert await select(Pages(), "select id from jobs where id = 'j3'") == [("j3",)]
    assert await select(Pages(), "select count(*) from jobs where queue = 'q1' and state = 'ready'") == [
        (17,)
    ]
    assert await select(Pages(), "select id from jobs where id = 3") == []


async def test_no_more_pages_are_read_than_are_needed():
    source = Pages(1000)
    assert await select(source, "select id from jobs", limit=15) == [(f"j{n}",) for n in range(15)]
    assert source.read == 2
    await select(source, "select id from jobs limit 3")
    assert source.read == 3


async def test_an_unknown_failure_of_a_store_is_the_callers():
    class Away(Pages):
        async def pages(
            self, table: str, wanted: Mapping[str, str]
        ) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
            raise EngineUnavailable("the store is away")
            yield []

    with pytest.raises(EngineUnavailable, match="the store is away"):
        await select(Away(), "select id from jobs")


async def test_a_store_that_does_not_answer_ends_the_question_in_time():
    source = Pages()
    source.gate.clear()
    with pytest.raises(ConfigError, match=r"longer than 0\.1 s"):
        await select(source, "select id from jobs", timeout=SECOND // 10)


async def test_a_question_whose_caller_has_gone_reads_no_further():
    source = Pages(1000)
    source.gate.clear()
    asking = asyncio.ensure_future(select(source, "select count(*) from jobs"))
    await source.began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    source.gate.set()
    await turns(50)
    assert source.read <= 1, "the page that was being read"


class Forgetful(MemoryEngine):
    """Deletes the last job of every page before the next one is asked for."""

    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        found = await super().find(filter, limit=limit, after=after)
        if found and len(found) == limit:
            await self.cancel([found[-1].id])
            await self.delete([found[-1].id])
        return found


async def test_jobs_come_once_although_the_last_of_each_page_goes():
    engine = Forgetful()
    await engine.enqueue([NewJob(f"j{n}", "t") for n in range(20)])
    rows = await select(VerbSource(engine, page=6), "select id from jobs")
    assert len(rows) == len(set(rows)) == 20
