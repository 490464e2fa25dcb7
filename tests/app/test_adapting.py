"""Limits that learn, with a worker and a service that refuses what is too much for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headgate import Adapt, App, ConcurrencyLimit, ConfigError, Throttled


class Service:
    """Bears `capacity` calls at once and refuses what is beyond, at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.busy = 0
        self.refused: list[bool] = []

    async def call(self) -> None:
        self.refused.append(self.busy >= self.capacity)
        if self.refused[-1]:
            raise Throttled(retry_after=0.05, limit="account")
        self.busy += 1
        await asyncio.sleep(0.02)
        self.busy -= 1


async def test_a_limit_learns_what_a_service_bears(real_time: App):
    service = Service(4)

    @real_time.task(limits=[ConcurrencyLimit(40, scope="account", key="one", adapt=Adapt(slow=0))])
    async def call() -> None:
        await service.call()

    await real_time.enqueue_many(call.job() for _ in range(250))
    number = 0
    async with real_time.worker(concurrency=60):
        async for limits in until_idle(real_time):
            number = limits["account=one"]
    assert 2 <= number <= 6
    late = service.refused[-100:]
    assert sum(late) <= 6
    assert len(service.refused) - sum(service.refused) == 250


async def until_idle(app: App) -> AsyncIterator[dict[str, int]]:
    """The numbers in force, now and then, until no job is left."""
    while await app.count(state=["ready", "waiting", "running", "scheduled"]):
        await asyncio.sleep(0.05)
        yield {limit.key: limit.max for limit in await app.limits() if limit.max is not None}


async def test_an_operator_is_not_overruled(real_time: App):
    service = Service(2)

    @real_time.task(limits=[ConcurrencyLimit(20, scope="account", key="one", adapt=Adapt(slow=0))])
    async def call() -> None:
        await service.call()

    await real_time.open()
    await real_time.set_limit("account=one", 3, by="ops")
    await real_time.enqueue_many(call.job() for _ in range(30))
    async with real_time.worker(concurrency=60):
        async for limits in until_idle(real_time):
            assert limits["account=one"] == 3


async def test_the_number_that_adapts_must_be_one():
    with pytest.raises(ConfigError, match="the number to begin with"):
        ConcurrencyLimit(max_concurrent="size", scope="a", adapt=Adapt())
