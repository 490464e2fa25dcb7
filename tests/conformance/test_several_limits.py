"""Jobs with several limits: all or none, in one order, without starving."""

from __future__ import annotations

import pytest

from headgate.engine.contract import Settings, Succeeded
from headgate.job import JobState
from tests.support.servers import Server
from tests.support.world import World


async def test_a_job_with_two_free_keys_holds_both_and_gives_back_both(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("both", "A", "B")
    await world.claim()
    assert await world.held("A") == ["both"]
    assert await world.held("B") == ["both"]
    await world.end("both")
    await world.nothing_left()


async def test_a_job_refused_by_its_second_key_holds_nothing_of_its_first(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("b", "B")
    await world.claim()
    await world.enqueue("both", "A", "B")
    assert await world.claim() == []
    assert await world.waiting_on("both") == "B"
    assert await world.held("A") == []
    await world.enqueue("a", "A")
    assert await world.claim() == ["a"], "the first key's other jobs run meanwhile"


async def test_jobs_that_name_two_keys_in_opposite_order_all_finish(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    for number in range(10):
        await world.enqueue(f"ab{number}", "A", "B")
        await world.enqueue(f"ba{number}", "B", "A")
    assert len(await world.run_all()) == 20
    await world.nothing_left()


async def test_the_same_key_twice_on_one_job_counts_once(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("twice", "A", "A")
    assert await world.claim() == ["twice"]
    assert await world.held("A") == ["twice"]


async def test_a_rate_named_twice_on_one_job_costs_the_larger_of_the_two(world: World) -> None:
    await world.rate("R", 5)
    await world.enqueue("twice", ("R", 2), ("R", 3))
    await world.claim()
    await world.enqueue("next", ("R", 3))
    assert await world.waiting_on("next") == "R", "two tokens are left"


async def test_the_rate_is_checked_when_the_last_slot_comes_late(world: World) -> None:
    await world.limit("A", 5)
    await world.limit("B", 1)
    await world.rate("R", 1, per=60)
    await world.enqueue("b", "B")
    await world.claim()
    await world.enqueue("all", "A", "B", "R")
    await world.enqueue("spender", "R")
    assert await world.claim() == ["spender"]
    await world.end("b")
    assert await world.claim() == []
    assert await world.waiting_on("all") == "R"
    assert await world.held("A") == []
    assert await world.held("B") == []
    await world.later(60)
    assert await world.claim() == ["all"]


async def test_a_job_that_waits_for_a_rate_holds_no_slot_meanwhile(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 1, per=60)
    await world.enqueue("spender", "R")
    await world.claim()
    await world.enqueue("both", "A", "R")
    assert await world.claim() == []
    assert await world.held("A") == []
    await world.enqueue("single", "A")
    assert await world.claim() == ["single"]


async def test_a_job_of_two_keys_starts_within_its_patience_under_endless_single_key_jobs(
    world: World,
) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("a0", "A")
    await world.enqueue("b0", "B")
    await world.claim()
    await world.enqueue("both", "A", "B")
    running = {"A": "a0", "B": "b0"}
    started, ends = [""], 0
    for ends in range(1, 60):
        key = "AB"[ends % 2]
        world.move(0.01)
        await world.enqueue(f"{key.lower()}{ends}", key)
        answer = await world.exchange(Succeeded(running[key], 1), want=10)
        started = [attempt.job for attempt in answer.attempts]
        if "both" in started:
            break
        running |= {job[0].upper(): job for job in started}
    assert "both" in started, "never started"
    assert ends <= Settings().patience + 3


async def test_a_failure_in_the_middle_of_a_claim_leaves_nothing_taken(world: World, server: Server) -> None:
    await world.limit("A", 2)
    await world.rate("R", 1)
    await world.enqueue("j1", "A", "R")
    await world.worker()
    before = await world.snapshot()
    with server.broken("start"), pytest.raises(Exception, match="broken on purpose"):
        await world.claim()
    assert await world.snapshot() == before
    assert (await world.get("j1")).attempt == 0
    assert await world.claim() == ["j1"], "slot and token are still there"


async def test_a_failure_in_the_middle_of_an_exchange_keeps_the_reported_outcome_unsettled(
    world: World, server: Server
) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    with server.broken("start"), pytest.raises(Exception, match="broken on purpose"):
        await world.exchange(Succeeded("j1", 1), want=1)
    assert await world.states("j1", "j2") == ["running", "waiting"]
    assert await world.held("A") == ["j1"]
    await world.end("j1")
    assert await world.claim() == ["j2"]


async def test_a_failure_in_the_middle_of_a_batch_enqueues_none_of_it(world: World, server: Server) -> None:
    await world.limit("A", 1)
    with server.broken("park"), pytest.raises(Exception, match="broken on purpose"):
        await world.fill(3, "A")
    assert await world.unfinished() == {}
    assert await world.fill(3, "A")
    assert await world.claim() == ["j1"]


async def test_a_refused_job_waits_on_the_first_refusing_key_in_canonical_order(world: World) -> None:
    await world.limit("A", 0)
    await world.limit("B", 0)
    await world.rate("Aaa", 0)
    await world.enqueue("j1", "Aaa", "B", "A")
    assert await world.waiting_on("j1") == "A"
    await world.limit("A", 1)
    await world.claim()
    assert await world.waiting_on("j1") == "B"
    await world.limit("B", 1)
    await world.claim()
    assert await world.waiting_on("j1") == "Aaa", "rates come after every concurrency key"


async def test_opening_the_last_of_three_closed_keys_starts_the_job(world: World) -> None:
    for name in "ABC":
        await world.limit(name, 0)
    await world.enqueue("j1", "A", "B", "C")
    for name in "CBA":
        assert await world.claim() == []
        await world.limit(name, 1)
    assert await world.claim() == ["j1"]
    assert [await world.held(name) for name in "ABC"] == [["j1"]] * 3


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_refusals_before_the_patience_is_used_up_reserve_nothing(world: World) -> None:
    await _pass_over(world, times=1)
    assert await world.reserved("A") == []
    assert await world.state("both") is JobState.WAITING


@pytest.mark.parametrize("settings", [Settings(patience=1)])
async def test_a_refusal_by_the_key_that_made_the_offer_does_not_count(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("holder", "B", queue="y")
    await world.claim()
    await world.enqueue("both", "A", "B", queue="x")
    for number in range(3):
        await world.enqueue(f"rival{number}", "B", queue="y")
        await world.end(world.starts[-1])
        assert await world.claim(queues=["y"]) == [f"rival{number}"], "both queues were offered the slot"
        assert await world.claim(queues=["x"]) == []
    assert await world.waiting_on("both") == "B"
    assert await world.reserved("A") == []


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_job_passed_over_too_often_keeps_the_keys_before_the_refusing_one(world: World) -> None:
    await _pass_over(world, times=2)
    assert await world.waiting_on("both") == "B"
    assert await world.reserved("A") == ["both"]
    await world.enqueue("a", "A")
    assert await world.claim() == [], "the reservation keeps others out"


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_reservation_becomes_the_slot_when_the_job_starts(world: World) -> None:
    await _pass_over(world, times=2)
    await world.end(*await world.held("B"))
    assert await world.claim() == ["both"]
    assert await world.reserved("A") == []
    assert await world.held("A") == ["both"]
    assert await world.held("B") == ["both"]
    await world.end("both")
    await world.nothing_left()


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_reserved_slot_is_not_lost_to_a_more_urgent_job(world: World) -> None:
    await _pass_over(world, times=2)
    await world.enqueue("urgent", "A", priority=0)
    await world.end(*await world.held("B"))
    assert await world.claim() == ["both"]
    assert await world.state("urgent") is JobState.WAITING


@pytest.mark.parametrize("settings", [Settings(patience=2)])
@pytest.mark.parametrize("verb", ["cancel", "replace"])
async def test_a_job_that_leaves_gives_its_reservation_to_the_next_waiter(world: World, verb: str) -> None:
    await _pass_over(world, times=2, unique="u")
    await world.enqueue("a", "A")
    if verb == "cancel":
        await world.cancel("both")
    else:
        await world.enqueue("other", unique="u", on_conflict="replace")
    assert await world.reserved("A") == []
    assert "a" in await world.claim()


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_an_offered_job_that_stays_unclaimed_loses_its_reservation_after_the_time_to_live(
    world: World,
) -> None:
    await _pass_over(world, times=2)
    await world.enqueue("a", "A")
    await world.end(*await world.held("B"))
    assert await world.state("both") is JobState.READY
    await world.later(9.9)
    assert await world.reserved("A") == ["both"]
    await world.later(0.2)
    assert await world.reserved("A") == []
    assert await world.state("both") is JobState.READY
    assert await world.state("a") is JobState.READY, "the key is offered on"
    assert "both" in await world.claim()


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_reservation_does_not_run_out_while_its_job_waits(world: World) -> None:
    await _pass_over(world, times=2)
    await world.later(3600)
    assert await world.reserved("A") == ["both"]


@pytest.mark.parametrize("settings", [Settings(patience=1)])
async def test_nothing_is_reserved_for_a_rate_wait(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 1, per=1000)
    await world.enqueue("a", "A")
    await world.claim()
    await world.enqueue("both", "A", "R")
    assert await world.waiting_on("both") == "A"
    await world.enqueue("spender", "R")
    assert await world.claim() == ["spender"]
    await world.end("a")
    assert await world.claim() == []
    assert await world.waiting_on("both") == "R"
    assert await world.held("A") == []


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_closing_a_reserved_key_keeps_its_job_from_starting(world: World) -> None:
    await _pass_over(world, times=2)
    await world.override("A", 0)
    await world.end(*await world.held("B"))
    assert await world.claim() == []
    assert await world.waiting_on("both") == "A"
    await world.clear("A")
    assert await world.claim() == ["both"]


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_reservations_are_kept_on_every_key_before_the_refusing_one(world: World) -> None:
    await world.limit("A1", 1)
    await _pass_over(world, times=2, also=("A1",))
    assert await world.reserved("A") == ["both"]
    assert await world.reserved("A1") == ["both"]


@pytest.mark.parametrize("settings", [Settings(patience=3)])
async def test_refusals_count_anew_after_an_attempt(world: World) -> None:
    await _pass_over(world, times=2)
    await world.end(*await world.held("B"))
    assert "both" in await world.claim()
    await world.fail("both", retry=0)
    view = next(view for view in (await world.snapshot()).jobs if view.id == "both")
    assert not view.refusals


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_reservation_of_a_cap_that_was_withdrawn_goes_with_its_job(world: World) -> None:
    await world.override("queue:narrow", 5)
    await _pass_over(world, times=2, then="z", queue="narrow")
    assert await world.reserved("queue:narrow") == ["both"]
    await world.clear("queue:narrow")
    await world.end(*await world.held("z"))
    assert await world.claim() == ["both"]
    await world.end("both")
    await world.nothing_left()


@pytest.mark.parametrize("settings", [Settings(patience=2)])
async def test_a_cap_that_came_and_went_while_a_job_ran_leaves_nothing_behind(world: World) -> None:
    await world.enqueue("j1")
    await world.enqueue("j2")
    await world.claim()
    await world.override("queue:default", 5)
    assert await world.held("queue:default") == ["j1", "j2"]
    await world.end("j1")
    await world.clear("queue:default")
    await world.end("j2")
    await world.nothing_left()


async def _pass_over(
    world: World, times: int, also: tuple[str, ...] = (), then: str = "B", **fields: object
) -> None:
    """`both` needs A and `then`. So often is it offered A and refused by `then`, which another job holds at the end."""
    await world.limit("A", 1)
    await world.limit(then, 1)
    await world.enqueue("a0", "A")
    await world.enqueue("b0", then)
    await world.claim()
    await world.enqueue("both", "A", then, *also, **fields)
    holder_of_a = "a0"
    for number in range(1, times + 1):
        await world.end(holder_of_a)
        assert await world.claim() == [], "offered by A, refused by the other"
        assert await world.waiting_on("both") == then
        if number < times:
            holder_of_a = f"a{number}"
            await world.enqueue(holder_of_a, "A", priority=0)
            assert await world.claim() == [holder_of_a]
            await world.end(*await world.held(then))
            await world.enqueue(f"b{number}", then, priority=0)
            assert f"b{number}" in await world.claim()
            assert await world.waiting_on("both") == "A"


@pytest.mark.parametrize("settings", [Settings(patience=1)])
async def test_a_reservation_that_is_let_go_passes_its_key_on_at_once(world: World) -> None:
    for name in "ABCD":
        await world.limit(name, 1)
    await world.enqueue("d", "D")
    await world.claim()
    await world.enqueue("several", "A", "B", "C", "D")
    await world.enqueue("c", "C")
    assert await world.claim() == ["c"]
    await world.end("d")
    assert await world.claim() == [], "D offered it, C refused it"
    assert (await world.reserved("A"), await world.reserved("B")) == (["several"], ["several"])
    await world.enqueue("waiter", "B")
    assert await world.claim() == []
    await world.override("A", 0)
    await world.end("c")
    assert await world.claim() == ["waiter"], "A refused the other, which lets go of B"
    assert await world.reserved("B") == []
