"""What can be asked of a store: jobs, filters, pages, counts, and why a job waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Engine, Filter, Holder, Settings
from headgate.job import Job, JobState
from tests.support.world import World

S = JobState


async def test_a_stored_job_shows_all_that_was_enqueued(world: World) -> None:
    await world.limit("A", 1)
    job = world.job(
        "j1",
        "A=x",
        queue="q",
        tenant="acme",
        args='{"a":"é"}',
        priority=3,
        timeout=7,
        unique="u",
        metadata='{"m":1}',
        retention=99,
    )
    await world.enqueue_all(job)
    assert await world.get("j1") == Job(
        id="j1",
        task="t",
        queue="q",
        args='{"a":"é"}',
        tenant="acme",
        priority=3,
        state=S.READY,
        due=world.now,
        enqueued_at=world.now,
        uses=job.uses,
        retry=job.retry,
        timeout=7,
        unique="u",
        metadata='{"m":1}',
        retention=99,
        waiting_on=None,
        attempt=0,
        tries=0,
        worker=None,
        started_at=None,
        ended_at=None,
        cancel_requested=False,
        error=None,
        result=None,
        progress=None,
        history=(),
    )


async def test_get_and_states_answer_in_the_order_asked_with_none_for_the_unknown(world: World) -> None:
    await world.fill(2)
    jobs = await world.engine.get(["j2", "nobody", "j1", "j2"])
    assert [job and job.id for job in jobs] == ["j2", None, "j1", "j2"]
    assert await world.engine.states(["nobody", "j1"]) == [None, S.READY]
    assert await world.engine.get([]) == []
    assert await world.engine.states([]) == []


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Filter(), "wait cancelled later run ready"),
        (Filter(states=(S.WAITING,)), "wait"),
        (Filter(states=(S.CANCELLED, S.RUNNING)), "cancelled run"),
        (Filter(states=()), ""),
        (Filter(queue="q"), "later"),
        (Filter(task="u"), "ready"),
        (Filter(tenant="acme"), "cancelled"),
        (Filter(waiting_on="A"), "wait"),
        (Filter(ids=("run", "nobody", "ready")), "run ready"),
        (Filter(ids=()), ""),
        (Filter(unique="key"), "later"),
        (Filter(queue="q", states=(S.READY,)), ""),
        (Filter(queue="nothing"), ""),
    ],
)
async def test_find_and_count_agree_on_every_filter(world: World, filter: Filter, expected: str) -> None:
    await world.limit("A", 1)
    await world.enqueue("ready", task="u")
    await world.enqueue("run", "A")
    await world.worker("w", tasks=["t"])
    await world.enqueue("later", queue="q", delay=50, unique="key")
    await world.enqueue("cancelled", tenant="acme")
    await world.cancel("cancelled")
    await world.claim(5)
    await world.enqueue("wait", "A")
    found = await world.engine.find(filter)
    assert [job.id for job in found] == expected.split(), "newest first"
    assert await world.engine.count(filter) == len(found)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Filter(waiting_on="A=x"), "a-zeta a-acme a-none"),
        (Filter(waiting_on="A"), "a-other a-zeta a-acme a-none"),
        (Filter(waiting_on="A=x", tenant="acme"), "a-acme"),
        (Filter(waiting_on="A", tenant="acme"), "a-other a-acme"),
        (Filter(waiting_on="S=x"), "s-acme"),
        (Filter(waiting_on="S", tenant="acme"), "s-acme"),
        (Filter(waiting_on="S=x", tenant="zeta"), ""),
        (Filter(waiting_on="R=x"), "r-acme"),
        (Filter(waiting_on="R"), "r-acme"),
        (Filter(waiting_on="A=X"), ""),
        (Filter(waiting_on="A="), ""),
        (Filter(waiting_on="A=x", states=(S.READY,)), ""),
        (Filter(waiting_on="A=x", queue="q"), "a-zeta"),
        (Filter(waiting_on="nothing"), ""),
    ],
)
async def test_jobs_are_found_by_the_text_of_the_key_they_wait_on(
    world: World, filter: Filter, expected: str
) -> None:
    await world.limit("A", 1)
    await world.limit("AB", 0)
    await world.limit("S", 1, shared=True)
    await world.rate("R", 1, per=1000)
    await world.enqueue("ab", "AB=x")
    for tenant in ("", "acme", "zeta"):
        await world.enqueue(f"first-{tenant}", "A=x", tenant=tenant)
    await world.enqueue("a-none", "A=x")
    await world.enqueue("a-acme", "A=x", tenant="acme")
    await world.enqueue("a-zeta", "A=x", tenant="zeta", queue="q")
    await world.enqueue("other", "A=y", tenant="acme")
    await world.enqueue("a-other", "A=y", tenant="acme")
    await world.enqueue("s-first", "S=x", tenant="zeta")
    await world.enqueue("s-acme", "S=x", tenant="acme")
    await world.enqueue("r-first", "R=x", tenant="acme")
    await world.enqueue("r-acme", "R=x", tenant="acme")
    await world.claim(50)
    found = [job.id for job in await world.engine.find(filter)]
    assert found == expected.split(), "newest first"
    assert await world.engine.count(filter) == len(found)


async def test_pages_of_jobs_follow_each_other_without_gap_or_repeat(world: World) -> None:
    ids = await world.fill(25)
    pages: list[list[str]] = []
    after: str | None = None
    while page := await world.engine.find(Filter(), limit=10, after=after):
        pages.append([job.id for job in page])
        after = page[-1].id
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [id for page in pages for id in page] == ids[::-1]


async def test_found_jobs_leave_their_history_out(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.fail("j1", retry=0)
    (found,) = await world.engine.find(Filter())
    assert found.history == ()
    assert len((await world.get("j1")).history) == 1


# ── why ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_can_be_explained_of_an_unknown_job(world: World) -> None:
    assert await world.engine.explain("nobody", now=world.now) is None


async def test_a_waiting_job_is_explained_by_its_key_its_holders_and_its_place(world: World) -> None:
    await world.limit("A", 2)
    await world.fill(5, "A=x")
    await world.claim()
    await world.enqueue("elsewhere", "A=x", queue="q", priority=0)
    facts = await world.engine.explain("j4", now=world.now)
    assert facts is not None
    assert facts.limit is not None
    assert (facts.limit.key, facts.limit.held, facts.limit.max, facts.limit.waiting) == ("A=x", 2, 2, 4)
    assert facts.holders == (
        Holder("j1", "t", "w", world.now, False),
        Holder("j2", "t", "w", world.now, False),
    )
    assert facts.place == 2, "among the waiters of its queue"
    assert facts.earliest is None
    assert facts.now == world.now


async def test_at_most_ten_holders_are_named(world: World) -> None:
    await world.limit("A", 12)
    await world.fill(13, "A")
    await world.claim()
    facts = await world.engine.explain("j13", now=world.now)
    assert facts is not None
    assert len(facts.holders) == 10


async def test_a_job_that_waits_for_a_rate_is_explained_by_its_earliest_time(world: World) -> None:
    await world.rate("R", 2, per=10)
    await world.fill(3, "R")
    await world.claim()
    world.move(1)
    facts = await world.engine.explain("j3", now=world.now)
    assert facts is not None
    assert (facts.earliest, facts.place, facts.holders) == (world.at(5), 1, ())


async def test_a_closed_rate_has_no_earliest_time(world: World) -> None:
    await world.rate("R", 0, per=10)
    await world.enqueue("j1", "R")
    facts = await world.engine.explain("j1", now=world.now)
    assert facts is not None
    assert facts.earliest is None


@pytest.mark.parametrize("settings", [Settings(patience=0)])
async def test_a_reservation_is_named_as_one(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("both", "A", "B")
    await world.enqueue("b", "B", priority=0)
    await world.claim()
    await world.enqueue("a", "A")
    facts = await world.engine.explain("a", now=world.now)
    assert facts is not None
    assert facts.holders == (Holder("both", "t", None, world.now, True),)


async def test_a_ready_job_is_explained_by_its_queue_and_the_workers_that_serve_it(world: World) -> None:
    await world.worker("all", tasks=["t"])
    await world.worker("mine", tasks=["t", "x"], queues=["q"])
    await world.worker("stranger", tasks=["x"], queues=["other", "q"])
    await world.worker("elsewhere", tasks=["t"], queues=["other"])
    await world.worker("lapsed", tasks=["t"], lease=1)
    await world.enqueue("j1", queue="q")
    await world.engine.pause("q", now=world.now)
    world.move(1)
    facts = await world.engine.explain("j1", now=world.now)
    assert facts is not None
    assert (facts.paused, facts.serving, facts.knowing) == (True, 3, 2)
    assert (facts.limit, facts.place) == (None, None)


async def test_looking_changes_nothing(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 1, per=10)
    await world.fill(3, "A", "R")
    await world.claim(1)
    before = await world.snapshot()
    await world.engine.get(["j1"])
    await world.engine.find(Filter())
    await world.engine.count(Filter())
    await world.engine.limits(now=world.now)
    await world.engine.keys_in_use("A", now=world.now)
    await world.engine.queues()
    await world.engine.workers(now=world.now)
    await world.engine.explain("j2", now=world.now)
    await world.engine.snapshot(now=world.now + SECOND)
    assert await world.snapshot() == before


async def test_an_empty_call_does_nothing(world: World) -> None:
    assert await world.engine.enqueue([], now=world.now) == []
    assert await world.engine.import_jobs([], now=world.now) == []
    for verb in ("cancel", "restart", "expedite", "delete"):
        assert await world.steer(verb) == []
    await world.engine.declare([], now=world.now)


async def test_migrating_a_store_of_this_version_changes_nothing(world: World) -> None:
    before, after = await world.engine.migrate()
    assert before == after


async def test_an_engine_may_be_closed_twice(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    other = await another_engine()
    await other.close()
    await other.close()
    await world.enqueue("j1")
