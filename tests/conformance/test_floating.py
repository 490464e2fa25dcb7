"""Floating limits at the store: numbers computed for keys, and which keys are in use."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import KeyInUse
from headgate.engine.rules.in_force import KEEP_NUMBERS
from tests.support.world import World


async def test_a_floating_limit_begins_with_its_default(world: World) -> None:
    await world.limit("F", 2, floating=True)
    await world.fill(5, "F=x")
    assert len(await world.claim()) == 2


async def test_a_computed_number_that_rises_from_nought_starts_waiters_at_once_up_to_it(world: World) -> None:
    await world.limit("F", 0, floating=True)
    await world.fill(5, "F=x")
    assert await world.claim() == []
    await world.compute("F=x", 3)
    assert await world.claim() == ["j1", "j2", "j3"]


async def test_a_computed_number_of_nought_closes_the_key_but_keeps_it_in_use(world: World) -> None:
    await world.limit("F", 2, floating=True)
    await world.compute("F=x", 0)
    computed_at = world.now
    world.move(5)
    await world.fill(2, "F=x")
    assert await world.claim() == []
    in_use = await world.engine.keys_in_use("F", now=world.now)
    assert in_use == [KeyInUse(world.ident("F=x"), 0, 0, 2, computed_at)]


async def test_keys_in_use_are_those_held_or_waited_for(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.limit("Fother", 1, floating=True)
    await world.fill(2, "F=a", prefix="a")
    await world.enqueue("b1", "F=b", tenant="acme")
    await world.enqueue("c1", "F=c", delay=100)
    await world.enqueue("o1", "Fother=a")
    await world.claim()
    in_use = await world.engine.keys_in_use("F", now=world.now)
    assert in_use == [
        KeyInUse(world.ident("F=a"), 1, 1, 1, None),
        KeyInUse(world.ident("F=b", "acme"), 1, 1, 0, None),
    ]
    await world.end("a1", "b1")
    await world.cancel("a2")
    assert await world.engine.keys_in_use("F", now=world.now) == []


async def test_a_computed_number_speaks_for_its_own_key_alone(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.compute("F=x", 2)
    await world.fill(3, "F=x", prefix="x")
    await world.fill(3, "F=y", prefix="y")
    assert sorted(await world.claim()) == ["x1", "x2", "y1"]


async def test_a_lowered_computed_number_stops_nobody(world: World) -> None:
    await world.limit("F", 3, floating=True)
    await world.fill(4, "F")
    await world.claim()
    await world.compute("F", 1)
    assert await world.states("j1", "j2", "j3", "j4") == ["running"] * 3 + ["waiting"]
    await world.end("j1", "j2")
    assert await world.claim() == []
    await world.end("j3")
    assert await world.claim() == ["j4"]


async def test_an_override_beats_a_computed_number(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.override("F", 2)
    await world.compute("F", 5)
    await world.fill(6, "F")
    assert len(await world.claim()) == 2
    await world.clear("F")
    assert len(await world.claim()) == 3


async def test_a_newer_computed_number_replaces_the_older(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.compute("F", 5)
    await world.later(10)
    await world.compute("F", 2)
    await world.fill(3, "F")
    assert len(await world.claim()) == 2
    (in_use,) = await world.engine.keys_in_use("F", now=world.now)
    assert (in_use.max, in_use.computed_at) == (2, world.now)


async def test_a_redeclared_default_does_not_replace_a_computed_number(world: World) -> None:
    await world.limit("F", 1, floating=True)
    await world.compute("F", 3)
    await world.limit("F", 2, floating=True)
    await world.fill(5, "F")
    assert len(await world.claim()) == 3


async def test_a_number_is_forgotten_an_hour_after_it_was_computed_unless_its_key_is_in_use(
    world: World,
) -> None:
    await world.limit("F", 1, floating=True)
    for key in ("F=held", "F=idle", "F=waited"):
        await world.compute(key, 0 if key == "F=waited" else 2)
    await world.enqueue("h", "F=held")
    await world.enqueue("w", "F=waited")
    assert await world.claim() == ["h"]

    async def known() -> list[tuple[str, int | None]]:
        return [(line.key, line.max) for line in await world.engine.limits("F", now=world.now)]

    await world.later(KEEP_NUMBERS / SECOND - 1)
    assert await known() == [("F", 1), ("F=held", 2), ("F=idle", 2), ("F=waited", 0)]
    await world.later(1)
    assert await known() == [("F", 1), ("F=held", 2), ("F=waited", 0)]
