"""Spending tokens, and when they come back."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import Algorithm
from tests.support.world import World

MICROSECOND = 1 / SECOND
ALGORITHMS: list[Algorithm] = ["token_bucket", "leaky", "sliding_window"]
EXACT: list[Algorithm] = ["token_bucket", "sliding_window"]


async def rings(world: World, key: str = "R") -> float | None:
    """In how many seconds the timer of a rate will ring."""
    at = (await world.snapshot()).timers.get(world.ident(key))
    return None if at is None else (at - world.now) / SECOND


async def spend(world: World, *tokens: int, every: float = 0) -> None:
    """Jobs of R that cost so many tokens start and end, one after the other."""
    for number, cost in enumerate(tokens):
        world.move(every if number else 0)
        id = f"spent {world.jobs}"
        await world.enqueue(id, ("R", cost))
        assert await world.claim() == [id]
        await world.end(id)
