"""Pages of limits stop counting, and what waits is found by the name of its limit or the text of its key."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Filter, Limit, Succeeded, Worker
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.status import COUNTED_MOST
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.postgres.conftest import OpenEngine

ONE = (Use(Key("one").ident),)


async def settled(engine: PostgresEngine) -> None:
    while (await engine.sweep()).more:
        pass


async def first_of_page(engine: PostgresEngine, name: str) -> tuple[int, int, bool]:
    status = (await engine.limits(name, limit=3))[0]
    assert status.key == name
    return status.held, status.waiting, status.exact


async def test_a_page_counts_a_thousand_waiters_and_then_says_so(engine: PostgresEngine) -> None:
    await engine.declare([Limit("many", "concurrency", 0), Limit("one", "concurrency", 0)])
    await engine.enqueue(
        [NewJob(f"m{n}", "t", uses=(Use(f"c0:many={n % 7}"),)) for n in range(COUNTED_MOST - 1)]
    )
    await settled(engine)
    assert await first_of_page(engine, "many") == (0, COUNTED_MOST - 1, True)
    await engine.enqueue([NewJob(f"n{n}", "t", uses=(Use("c0:many=7"),)) for n in range(5)])
    await settled(engine)
    assert await first_of_page(engine, "many") == (0, COUNTED_MOST, False)
    assert await first_of_page(engine, "one") == (0, 0, True)
    whole = (await engine.limits("many"))[0]
    assert (whole.waiting, whole.exact) == (COUNTED_MOST + 4, True), "what is asked for as a whole is counted"


async def test_a_page_counts_a_thousand_holders_and_then_says_so(engine: PostgresEngine) -> None:
    await engine.declare([Limit("many", "concurrency", 1), Limit("one", "concurrency", COUNTED_MOST + 9)])
    await engine.register(Worker("w", frozenset({"t"}), concurrency=5000))
    uses = [ONE] * (COUNTED_MOST - 1) + [(Use(f"c0:many={n}"),) for n in range(COUNTED_MOST + 1)]
    await engine.enqueue([NewJob(f"m{n}", "t", uses=each) for n, each in enumerate(uses)])
    await settled(engine)
    number = 0
    while (
        answer := await engine.exchange("w", [], 500, number=(number := number + 1))
    ).attempts or answer.more:
        pass
    assert await first_of_page(engine, "one") == (COUNTED_MOST - 1, 0, True)
    assert await first_of_page(engine, "many") == (COUNTED_MOST, 0, False)
    assert (await engine.limits("many"))[0].held == COUNTED_MOST + 1


async def test_rows_of_idle_keys_do_not_hide_what_is_held(engine: PostgresEngine) -> None:
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.register(Worker("w", frozenset({"t"}), concurrency=5000))
    await engine.enqueue([NewJob(f"m{n:03}", "t", uses=(Use(f"c0:A={n:03}"),)) for n in range(200)])
    started = [*(await engine.exchange("w", [], 150, number=1)).attempts]
    started += (await engine.exchange("w", [], 150, number=2)).attempts
    ended = [Succeeded(each.job, each.number) for each in started if each.job != "m199"]
    await engine.exchange("w", ended, 0, number=3)
    assert await first_of_page(engine, "A") == (1, 0, True)


@pytest.fixture
async def waiting(open_engine: OpenEngine) -> PostgresEngine:
    """Jobs of two queues and tasks that wait on keys of a limit, some of them a tenant's, among others that do not."""
    engine = await open_engine()
    await engine.declare(
        [Limit("A", "concurrency", 0), Limit("B", "concurrency", 0), Limit("AB", "concurrency", 0)]
    )
    jobs = [
        NewJob("a1", "t", uses=(Use("c0:A=1"),)),
        NewJob("a2", "u", "other", uses=(Use("c0:A=2"),), unique="x"),
        NewJob("bare", "t", uses=(Use("c0:A"),)),
        NewJob("acme1", "t", uses=(Use("c4:acmeA=1"),), tenant="acme"),
        NewJob("b1", "t", uses=(Use("c0:B=1"),)),
        NewJob("ab", "t", uses=(Use("c0:AB=1"),)),
        NewJob("free", "t"),
        NewJob("a1again", "t", uses=(Use("c0:A=1"),)),
    ]
    await engine.enqueue(jobs)
    await settled(engine)
    return engine


FOUND: list[tuple[Filter, list[str]]] = [
    (Filter(waiting_on="A"), ["a1again", "acme1", "bare", "a2", "a1"]),
    (Filter(waiting_on="A=1"), ["a1again", "acme1", "a1"]),
    (Filter(waiting_on="A=3"), []),
    (Filter(waiting_on="A", tenant="acme"), ["acme1"]),
    (Filter(waiting_on="A=1", tenant=""), ["a1again", "a1"]),
    (Filter(waiting_on="A", queue="other"), ["a2"]),
    (Filter(waiting_on="A=2", queue="default"), []),
    (Filter(waiting_on="A", task="u"), ["a2"]),
    (Filter(waiting_on="A", unique="x"), ["a2"]),
    (Filter(waiting_on="A", ids=("a1", "b1")), ["a1"]),
    (Filter(waiting_on="A=1", ids=("a1", "b1")), ["a1"]),
    (Filter(waiting_on="A", states=(JobState.WAITING,)), ["a1again", "acme1", "bare", "a2", "a1"]),
    (Filter(waiting_on="A", states=(JobState.READY,)), []),
]


@pytest.mark.parametrize(("wanted", "ids"), FOUND, ids=[str(number) for number in range(len(FOUND))])
async def test_what_waits_is_found_and_counted(
    waiting: PostgresEngine, wanted: Filter, ids: list[str]
) -> None:
    assert [job.id for job in await waiting.find(wanted)] == ids
    assert await waiting.count(wanted) == len(ids)
    pages: list[str] = []
    while page := await waiting.find(wanted, limit=2, after=pages[-1] if pages else None):
        pages += [job.id for job in page]
    assert pages == ids


async def test_a_newcomer_whose_key_is_yet_to_be_looked_at_does_not_wait(open_engine: OpenEngine) -> None:
    engine = await open_engine()
    await engine.declare([Limit("A", "concurrency", 1)])
    await engine.enqueue([NewJob("j", "t", uses=(Use("c0:A"),)), NewJob("k", "t", uses=(Use("c0:A=1"),))])
    for text in ("A", "A=1"):
        assert await engine.find(Filter(waiting_on=text)) == []
        assert await engine.count(Filter(waiting_on=text)) == 0
