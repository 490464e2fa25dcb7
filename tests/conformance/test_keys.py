"""How single keys stand: what is left of them, what holds them, what waits for them; which ones are the tightest."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Holder, KeyStatus, LimitStatus, Override, Settings, Waiter
from headgate.keys import Key
from tests.support.world import World


async def key(world: World, text: str, tenant: str = "", holders: int = 10, waiters: int = 10) -> KeyStatus:
    """A key that there is."""
    idents = [world.ident(text, tenant)]
    (found,) = await world.engine.keys(idents, holders=holders, waiters=waiters, now=world.now)
    assert found is not None
    return found


async def numbers(world: World, text: str, tenant: str = "") -> tuple[int | None, int, int]:
    """What is left, how many hold it, how many wait."""
    found = await key(world, text, tenant)
    assert len(found.holders) == min(found.status.held, 10)
    assert len(found.waiters) == min(found.status.waiting, 10)
    return found.free, found.status.held, found.status.waiting


def declared(name: str, text: str, max: int | None, **fields: object) -> LimitStatus:
    """A concurrency key as it is declared."""
    status = {"kind": "concurrency", "declared": max, "override": None, "held": 0, "waiting": 0, "tenant": ""}
    return LimitStatus(name=name, key=text, max=max, **(status | fields))  # type: ignore[arg-type]


async def test_a_key_that_was_never_used_has_all_its_room(world: World) -> None:
    await world.limit("A", 3)
    assert await key(world, "A=42") == KeyStatus(declared("A", "A=42", max=3), 3, None)


async def test_a_key_shows_what_is_left_what_holds_it_and_what_waits(world: World) -> None:
    await world.limit("A", 2)
    await world.fill(3, "A=x", queue="q", priority=7)
    assert await world.claim(1) == ["j1"]
    started = world.now
    assert (await key(world, "A=x")).free == 1
    world.move(5)
    assert await world.claim() == ["j2"]
    assert await key(world, "A=x") == KeyStatus(
        declared("A", "A=x", max=2, held=2, waiting=1),
        free=0,
        earliest=None,
        holders=(Holder("j1", "t", "w", started, False), Holder("j2", "t", "w", world.now, False)),
        waiters=(Waiter("j3", "t", "q", "", 7, started),),
    )
    await world.end("j1")
    await world.claim()
    assert [holder.job for holder in (await key(world, "A=x")).holders] == ["j2", "j3"]
    assert await numbers(world, "A=x") == (0, 2, 0)
    await world.end("j2", "j3")
    assert await numbers(world, "A=x") == (2, 0, 0)


async def test_keys_are_answered_in_the_order_in_which_they_are_asked_for(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 5)
    idents = [world.ident(text) for text in ("R=1", "A=2", "A=1", "A=2")]
    found = await world.engine.keys([*idents, Key("unknown").ident], now=world.now)
    assert [status and status.status.key for status in found] == ["R=1", "A=2", "A=1", "A=2", None]
    assert await world.engine.keys([], now=world.now) == []


async def test_a_key_of_no_declared_limit_is_none(world: World) -> None:
    await world.rate("R", 5)
    await world.limit("A", 1)
    idents = [Key("B").ident, Key("R").ident, Key("A", rate=True).ident, Key("task:t").ident]
    assert await world.engine.keys(idents, now=world.now) == [None] * 4


async def test_a_cap_that_only_an_operator_has_set_is_there_until_it_is_cleared(world: World) -> None:
    await world.override("task:t", 1)
    await world.fill(3)
    assert await world.claim() == ["j1"]
    found = await key(world, "task:t")
    assert (found.free, found.status.max, found.status.declared) == (0, 1, None)
    assert [holder.job for holder in found.holders] == ["j1"]
    assert found.status.waiting == len(found.waiters) == 2
    await world.clear("task:t")
    assert await world.engine.keys([world.ident("task:t")], now=world.now) == [None]


async def test_the_key_of_each_tenant_stands_for_itself_and_a_shared_one_for_all(world: World) -> None:
    await world.limit("A", 2)
    await world.limit("S", 2, shared=True)
    await world.limit("queue:default", 3)
    await world.fill(3, "A=x", prefix="n")
    await world.fill(1, "A=x", prefix="a", tenant="acme")
    await world.fill(2, "S=x", prefix="s", tenant="zeta")
    while await world.claim():
        pass
    keys = [("A=x", ""), ("A=x", "acme"), ("A=x", "zeta"), ("S=x", "zeta")]
    held = [(await key(world, text, tenant)).status.held for text, tenant in keys]
    assert held[2] == 0, "it has no such job"
    assert sum(held) == (await key(world, "queue:default")).status.held == 3
    assert (await key(world, "A=x", "acme")).status.tenant == "acme"
    assert (await key(world, "S=x", "zeta")).status.tenant == ""


async def test_waiters_stand_in_the_order_in_which_they_come_across_queues_and_tenants(world: World) -> None:
    await world.limit("A", 0, shared=True)
    await world.enqueue("last", "A", queue="a", priority=90)
    await world.enqueue("third", "A", queue="b", tenant="acme")
    world.move(5)
    await world.enqueue("fourth", "A", queue="a")
    await world.enqueue("first", "A", queue="c", priority=3, tenant="zeta")
    await world.enqueue("second", "A", queue="a", delay=-50)
    await world.claim()
    found = await key(world, "A")
    assert [waiter.job for waiter in found.waiters] == ["first", "second", "third", "fourth", "last"]
    assert [waiter.queue for waiter in found.waiters] == ["c", "a", "b", "a", "a"]
    assert [waiter.tenant for waiter in found.waiters] == ["zeta", "", "acme", "", ""]
    assert [waiter.priority for waiter in found.waiters] == [3, 50, 50, 50, 90]
    assert found.waiters[1].due == world.at(-45)


async def test_as_many_holders_and_waiters_are_shown_as_were_asked_for(world: World) -> None:
    await world.limit("A", 30)
    await world.fill(70, "A")
    await world.claim()
    found = await key(world, "A", holders=25, waiters=35)
    assert [holder.job for holder in found.holders] == [f"j{number}" for number in range(1, 26)]
    assert [waiter.job for waiter in found.waiters] == [f"j{number}" for number in range(31, 66)]
    assert (found.status.held, found.status.waiting, found.status.exact) == (30, 40, True)
    found = await key(world, "A", holders=0, waiters=0)
    assert (found.holders, found.waiters, found.free) == ((), (), 0)


async def test_the_longest_holder_comes_first(world: World) -> None:
    await world.limit("A", 3)
    await world.fill(3, "A")
    for worker in ("w3", "w1", "w2"):
        world.move(1)
        await world.claim(1, worker=worker)
    found = await key(world, "A", holders=2)
    assert [(holder.worker, holder.since) for holder in found.holders] == [
        ("w3", world.at(1)),
        ("w1", world.at(2)),
    ]


async def test_a_limit_that_was_lowered_under_what_runs_has_nothing_left(world: World) -> None:
    await world.limit("A", 5)
    await world.fill(5, "A")
    await world.claim()
    await world.limit("A", 2)
    assert await numbers(world, "A") == (0, 5, 0)


async def test_what_is_not_limited_has_no_number_left(world: World) -> None:
    await world.limit("A", None)
    await world.rate("R", None)
    await world.fill(2, "A", "R")
    await world.claim()
    assert await numbers(world, "A") == (None, 2, 0)
    assert await numbers(world, "R") == (None, 0, 0)
    await world.override("A", 3)
    assert await numbers(world, "A") == (1, 2, 0)


async def test_an_override_is_shown_with_its_author(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A=x", 4, by="ada", why="month end", until=60)
    word = Override("A", 4, "x", by="ada", at=world.now, why="month end", until=world.now + 60 * SECOND)
    found = await key(world, "A=x")
    assert (found.free, found.status.max, found.status.declared, found.status.override) == (4, 4, 1, word)
    assert (await key(world, "A=y")).free == 1
    await world.later(61)
    assert (await key(world, "A=x")).free == 1


async def test_a_floating_key_has_what_was_computed_for_it(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.compute("F=x", 3)
    await world.fill(5, "F=x", prefix="x")
    await world.claim()
    assert await numbers(world, "F=x") == (0, 3, 2)
    assert await numbers(world, "F=y") == (1, 0, 0)
    assert (await key(world, "F=x")).status.kind == "floating"


async def test_a_rate_shows_its_tokens_and_when_there_will_be_one_again(world: World) -> None:
    await world.rate("R", 2, per=60)
    await world.fill(4, "R=x", tenant="acme")
    assert (await key(world, "R=x", "acme")).free == 2
    assert await world.claim() == ["j1", "j2"]
    found = await key(world, "R=x", "acme")
    assert (found.free, found.earliest, found.holders) == (0, world.at(30), ())
    assert [waiter.job for waiter in found.waiters] == ["j3", "j4"]
    assert (found.status.period, found.status.kind) == (60 * SECOND, "rate")
    world.move(31)
    found = await key(world, "R=x", "acme")
    assert (found.free, found.earliest) == (1, None)
    assert (await key(world, "R=x")).free == 2, "that of jobs without a tenant"


async def test_an_exact_window_shows_when_its_first_start_leaves_it(world: World) -> None:
    await world.rate("R", 2, per=60, algorithm="sliding_window")
    await world.fill(3, "R")
    await world.claim(1)
    world.move(7)
    await world.claim(1)
    found = await key(world, "R")
    assert (found.free, found.earliest) == (0, world.at(60))


async def test_a_closed_rate_has_no_earliest_time(world: World) -> None:
    await world.rate("R", 0)
    found = await key(world, "R")
    assert (found.free, found.earliest) == (0, None)


@pytest.mark.parametrize("settings", [Settings(patience=1)])
async def test_a_reservation_is_a_holder_that_is_marked(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("b", "B")
    await world.enqueue("a", "A")
    await world.claim()
    await world.enqueue("both", "A", "B")
    await world.end("a")
    await world.claim()
    await world.claim()
    assert await world.reserved("A") == ["both"]
    (holder,) = (await key(world, "A")).holders
    assert (holder.job, holder.worker, holder.reserved) == ("both", None, True)
    assert await numbers(world, "A") == (0, 1, 0)
    assert [waiter.job for waiter in (await key(world, "B")).waiters] == ["both"]


async def test_many_holders_and_waiters_are_counted_at_least_as_far_as_a_page_counts(world: World) -> None:
    await world.worker("w", concurrency=5000)
    await world.limit("A", 1200)
    await world.fill(2600, "A")
    while await world.claim(1000):
        pass
    found = await key(world, "A", holders=3, waiters=3)
    for shown, real in ((found.status.held, 1200), (found.status.waiting, 1400)):
        assert shown == real or (not found.status.exact and 1000 <= shown <= real)
    assert found.free == 0
    assert len(found.holders) == len(found.waiters) == 3


# ── the tightest ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def tightest(world: World, limit: int = 10) -> list[tuple[str, str, int]]:
    found = await world.engine.tightest(limit=limit, now=world.now)
    return [(status.key, status.tenant, status.waiting) for status in found]


async def test_without_waiters_no_key_is_tight(world: World) -> None:
    await world.limit("A", 1)
    assert await tightest(world) == []
    await world.enqueue("j1", "A")
    await world.claim()
    assert await tightest(world) == []


async def test_the_tightest_keys_are_those_that_most_jobs_wait_on(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("S", 0, shared=True)
    await world.rate("R", 1, per=3600)
    await world.limit("task:u", 0)
    await world.fill(3, "A=x", prefix="ax")
    await world.fill(6, "A=x", prefix="acme", tenant="acme")
    await world.fill(2, "A=y", prefix="ay", queue="q")
    await world.fill(5, "R=z", prefix="r")
    await world.fill(7, "S", prefix="s", tenant="zeta")
    await world.fill(3, task="u", prefix="u")
    while await world.claim():
        pass
    all = [
        ("S", "", 7),
        ("A=x", "acme", 5),
        ("R=z", "", 4),
        ("task:u", "", 3),
        ("A=x", "", 2),
        ("A=y", "", 1),
    ]
    assert await tightest(world) == all
    assert await tightest(world, 2) == all[:2]
    statuses = await world.engine.tightest(limit=1, now=world.now)
    assert statuses == [
        status for status in await world.engine.limits("S", now=world.now) if status.key == "S"
    ]


async def test_a_tight_key_shows_its_number_and_how_many_hold_it(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A=x", 2)
    await world.fill(5, "A=x")
    await world.claim()
    (status,) = await world.engine.tightest(now=world.now)
    assert (status.max, status.declared, status.held, status.waiting) == (2, 1, 2, 3)
    await world.cancel("j3", "j4", "j5")
    assert await tightest(world) == []


async def test_of_many_keys_the_tightest_is_found(world: World) -> None:
    await world.limit("A", 0)
    await world.enqueue_all(*(world.job(f"k{number}", f"A={number:03}") for number in range(300)))
    await world.fill(3, "A=200")
    await world.fill(2, "A=100", prefix="more")
    await world.claim_all()
    assert await tightest(world, 2) == [("A=200", "", 4), ("A=100", "", 3)]
    assert len(await tightest(world, 50)) == 50
