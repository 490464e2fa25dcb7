"""Fair shares: who is next among jobs of one queue and priority (rule 17)."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, ShareWeight
from headgate.engine.rules.shares import KEEP_MEANS
from headgate.job import JobState
from tests.support.world import World


async def starts(world: World, count: int) -> list[str]:
    """The next jobs, one after the other: each ends before the next one starts."""
    found: list[str] = []
    for _ in range(count):
        claimed = await world.claim(1)
        if not claimed:
            break
        found += claimed
        await world.end(*claimed)
    return found


def shares(ids: list[str]) -> str:
    """The first letters of ids."""
    return "".join(id[0] for id in ids)


async def test_shares_of_equal_weight_take_turns(world: World) -> None:
    await world.fill(6, prefix="a", share="a")
    await world.fill(3, prefix="b", share="b")
    assert shares(await starts(world, 9)) == "abababaaa"


async def test_a_newcomer_of_a_quiet_share_stands_right_behind_what_has_started(world: World) -> None:
    await world.fill(40, prefix="a", share="a")
    await starts(world, 10)
    await world.fill(3, prefix="b", share="b")
    assert shares(await starts(world, 8)).count("b") == 3


async def test_an_idle_share_earns_nothing(world: World) -> None:
    await world.fill(1, prefix="b", share="b")
    await world.fill(30, prefix="a", share="a")
    await starts(world, 20)
    await world.fill(10, prefix="c", share="b")
    assert shares(await starts(world, 10)).count("c") in (5, 6)


async def test_one_share_alone_leaves_nothing_unused(world: World) -> None:
    await world.fill(5, prefix="a", share="a")
    assert len(await world.claim()) == 5


async def test_within_a_share_the_order_is_by_priority_due_time_and_arrival(world: World) -> None:
    await world.fill(3, prefix="a", share="a")
    await world.enqueue("urgent", share="a", priority=1)
    assert await starts(world, 4) == ["urgent", "a1", "a2", "a3"]


async def test_shares_are_compared_within_one_priority(world: World) -> None:
    await world.fill(5, prefix="u", share="a", priority=1)
    await starts(world, 5)
    await world.fill(4, prefix="a", share="a")
    await world.fill(4, prefix="b", share="b")
    assert shares(await starts(world, 4)) == "abab"


async def test_the_line_of_a_key_is_handed_out_fairly_too(world: World) -> None:
    await world.limit("llm", 1)
    await world.fill(10, "llm", prefix="a", share="a")
    await starts(world, 1)
    await world.fill(3, "llm", prefix="b", share="b")
    assert shares(await starts(world, 6)).count("b") == 3


async def test_weights_give_starts_in_proportion(world: World) -> None:
    await world.share("a", 3)
    await world.fill(50, prefix="a", share="a")
    await world.fill(50, prefix="b", share="b")
    counts = Counter(shares(await starts(world, 40)))
    assert counts == {"a": 30, "b": 10}


async def test_a_weight_is_in_force_for_what_waits(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(40, "A", prefix="a", share="a")
    await world.fill(40, prefix="b", share="b", queue="q")
    await world.fill(40, prefix="c", share="a", queue="q")
    assert Counter(shares(await starts(world, 8))).keys() <= {"a", "b", "c"}
    await world.share("a", 4)
    await world.sweep()
    counts = Counter(shares([id for id in await starts(world, 60) if id[0] in "bc"]))
    assert counts["c"] > 2.5 * counts["b"]
    assert await world.engine.clear_share("a", now=world.now)
    assert not await world.engine.clear_share("a", now=world.now)
    await world.sweep()
    await world.check_now()


async def test_a_weight_runs_out(world: World) -> None:
    await world.share("a", 3, until=10)
    await world.fill(60, prefix="a", share="a")
    await world.fill(60, prefix="b", share="b")
    assert Counter(shares(await starts(world, 12)))["a"] == 9
    await world.later(10)
    assert abs(Counter(shares(await starts(world, 20)))["a"] - 10) <= 1
    (a, _) = await world.engine.shares()
    assert (a.weight, a.override) == (1, None)


async def test_what_has_started_does_not_count_as_waiting_in_its_share(world: World) -> None:
    await world.fill(5, prefix="a", share="a")
    await world.claim(2)
    (status,) = await world.engine.shares()
    assert status.pending == 3


async def test_declared_weights_count_and_operators_beat_them(world: World) -> None:
    await world.engine.declare_shares([ShareWeight("a", 2.0)], now=world.now)
    await world.share("a", 5)
    await world.fill(2, prefix="a", share="a")
    await world.met()
    (status,) = await world.engine.shares()
    assert (status.share, status.weight, status.declared, status.pending) == ("a", 5, 2, 2)
    await world.engine.clear_share("a", now=world.now)
    (status,) = await world.engine.shares()
    assert status.weight == 2


async def test_a_retry_is_charged_and_a_job_that_comes_back_keeps_its_place(world: World) -> None:
    await world.fill(3, prefix="a", share="a")
    await world.fill(3, prefix="b", share="b")
    assert await world.claim(1) == ["a1"]
    before = (await world.get("a1")).tag
    await world.release("a1")
    assert (await world.get("a1")).tag == before
    assert await world.claim(1) == ["a1"]
    await world.fail("a1", retry=0)
    await world.met()
    assert (await world.get("a1")).tag > (await world.get("a3")).tag
    assert await starts(world, 3) == ["b1", "a2", "b2"]


async def test_jobs_that_were_cancelled_charge_nobody(world: World) -> None:
    ids = await world.fill(30, prefix="a", share="a")
    await world.fill(4, prefix="b", share="b")
    await world.cancel(*ids)
    await world.fill(4, prefix="c", share="a")
    assert shares(await starts(world, 4)) in ("bcbc", "cbcb", "bccb", "cbbc")


@pytest.mark.parametrize("on_conflict", ["replace", "update"])
async def test_a_job_whose_place_a_newcomer_takes_does_not_stand_before_it_in_its_share(
    world: World, on_conflict: Literal["replace", "update"]
) -> None:
    await world.enqueue("a0", share="a")
    await world.enqueue("a1", share="a", unique="u")
    await world.enqueue("a2", share="a", unique="u", on_conflict=on_conflict)
    await world.met()
    (job,) = [job for job in await world.engine.find(Filter(states=(JobState.READY,))) if job.id != "a0"]
    assert job.tag == 20_000


async def test_a_newcomer_that_is_replaced_within_its_batch_charges_nobody(world: World) -> None:
    one, other = (
        world.job("a1", share="a", unique="u"),
        world.job("a2", share="a", unique="u", on_conflict="replace"),
    )
    await world.enqueue_all(world.job("a0", share="a"), one, other)
    await world.met()
    assert (await world.get("a2")).tag == 20_000


async def test_future_jobs_are_tagged_when_they_are_due(world: World) -> None:
    await world.enqueue("future", share="a", delay=10)
    assert (await world.get("future")).tag == 0
    await world.fill(20, prefix="b", share="b")
    await starts(world, 10)
    await world.later(10)
    assert "future" in await starts(world, 3)


async def test_shares_can_be_charged_for_the_time_that_their_attempts_take(world: World) -> None:
    """Attempts of `a` take nine times as long as those of `b`: b starts nine times as often."""
    await world.fill(60, prefix="a", share="a", charge="time")
    await world.fill(60, prefix="b", share="b", charge="time")
    took = {"a": 9.0, "b": 1.0}
    order: list[str] = []
    for _ in range(60):
        (id,) = await world.claim(1)
        world.move(took[id[0]])
        await world.end(id)
        order.append(id)
    counts = Counter(shares(order[20:]))
    assert 5 * counts["a"] < counts["b"] < 14 * counts["a"]


async def test_idle_shares_leave_nothing(world: World) -> None:
    for number in range(5):
        await world.fill(2, prefix=f"s{number}", share=f"share{number}", charge="time", retention=0)
    await starts(world, 10)
    await world.later(KEEP_MEANS / SECOND + 1)
    await world.later(1)
    assert await world.engine.shares() == []
    await world.enqueue("x", share="share0")
    await world.met()
    assert (await world.get("x")).tag == 10_000, "the virtual time is forgotten as well"


async def test_a_thousand_shares_take_turns(world: World) -> None:
    jobs = [world.job(f"{share:03}-{n}", share=f"t{share}") for share in range(300) for n in range(2)]
    await world.enqueue_all(*jobs)
    first = await world.claim_all()
    assert len({id[:3] for id in first[:300]}) == 300
    assert await world.state("000-0") is JobState.RUNNING
