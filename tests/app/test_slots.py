"""Slots for code that is no job: in the same lines as jobs, given back however the block ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    HeadgateError,
    JobCancelled,
    RateLimit,
    SlotLost,
    WaiterInfo,
)
from headgate.clock import SECOND
from tests.support.waiting import eventually, turns, until

CRM = ConcurrencyLimit(2, scope="crm")
ONE = ConcurrencyLimit(1, scope="one")


async def held(app: App, key: str) -> int:
    return next((limit.held for limit in await app.limits() if limit.key == key), 0)


async def waiters(app: App, count: int) -> tuple[WaiterInfo, ...]:
    """What waits for `one`, once there are so many."""

    async def enough() -> tuple[WaiterInfo, ...]:
        found = (await app.key("one", waiters=10)).waiters
        return found if len(found) == count else ()

    return await until(enough, "code to stand in line")


async def test_a_slot_is_held_inside_the_block_and_given_back_after_it(real_time: App):
    async with real_time.slot(CRM, timeout=20) as slot:
        assert await held(real_time, "crm") == 1
        assert not slot.lost
        (holder,) = (await real_time.key("crm")).holders
        assert holder.job == slot.id
    assert await held(real_time, "crm") == 0


async def test_code_and_jobs_never_have_more_than_the_limit_together(real_time: App):
    running, most = 0, 0

    async def together() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    @real_time.task
    async def work(crm: Annotated[str, ConcurrencyLimit(2, scope="crm", key="all")]) -> None:
        await together()

    async def handler() -> None:
        async with real_time.slot(ConcurrencyLimit(2, scope="crm", key="all"), timeout=30):
            await together()

    async with real_time.worker(concurrency=10):
        jobs = await real_time.enqueue_many(work.job("x") for _ in range(10))
        await asyncio.gather(*(handler() for _ in range(10)))
        await asyncio.gather(*(job.result(timeout=30) for job in jobs))
    assert most == 2


async def test_an_error_in_the_block_gives_the_slot_back(real_time: App):
    with pytest.raises(ZeroDivisionError):
        async with real_time.slot(ONE, timeout=20):
            raise ZeroDivisionError
    assert await held(real_time, "one") == 0


async def test_without_room_a_timeout_leaves_the_line(real_time: App):
    async with real_time.slot(ONE, timeout=20):
        with pytest.raises(TimeoutError, match=r"no slot was free within 0\.2 seconds"):
            async with real_time.slot(ONE, timeout=0.2):
                pass
        (one,) = await real_time.limits("one")
        assert (one.held, one.waiting) == (1, 0)


async def test_slots_are_given_in_the_order_of_priority_and_arrival(real_time: App):
    order: list[str] = []

    async def ask(name: str, priority: int) -> None:
        async with real_time.slot(ONE, priority=priority, timeout=30):
            order.append(name)

    async with real_time.slot(ONE, timeout=20):
        asking: list[asyncio.Task[None]] = []
        for name, priority in (("a", 50), ("b", 50), ("urgent", 1)):
            asking.append(asyncio.create_task(ask(name, priority)))
            await waiters(real_time, len(asking))
    await asyncio.gather(*asking)
    assert order == ["urgent", "a", "b"]


async def test_tokens_are_spent_with_the_slot(real_time: App):
    tokens = RateLimit(2, per=3600, scope="tokens")
    for _ in range(2):
        async with real_time.slot(ONE, tokens, timeout=20):
            pass
    with pytest.raises(TimeoutError):
        async with real_time.slot(ONE, tokens, timeout=0.2):
            pass
    async with real_time.slot(ONE, timeout=20):
        pass


async def test_a_slot_that_an_operator_cancels_is_lost(real_time: App):
    async with real_time.slot(ONE, timeout=20) as slot:
        await (await real_time.job(slot.id)).cancel()
        async with asyncio.timeout(20):
            await slot.wait_lost()
        assert slot.lost
        with pytest.raises(SlotLost):
            slot.raise_if_lost()


async def test_one_that_is_cancelled_while_it_waits_says_so(real_time: App):
    async def ask() -> None:
        async with real_time.slot(ONE):
            raise AssertionError("it was given a slot")

    async with real_time.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        (waiting,) = await waiters(real_time, 1)
        await (await real_time.job(waiting.job)).cancel()
        with pytest.raises(JobCancelled, match="the slot was not given"):
            await asking


async def test_a_caller_that_is_cancelled_leaves_nothing(real_time: App):
    async def ask() -> None:
        async with real_time.slot(ONE):
            raise AssertionError("it was given a slot")

    async with real_time.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        await waiters(real_time, 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    async with real_time.slot(ONE, timeout=20):
        pass
    assert await held(real_time, "one") == 0


async def test_a_caller_that_goes_as_the_slot_is_given_leaves_nothing(real_time: App):
    """Its loop is held up until the store has given the slot, and hears of that only when it is cancelled already."""
    await real_time.open()
    asking = asyncio.create_task(real_time.slot(ONE).__aenter__())
    await turns(2)

    def given() -> bool:
        return any(limit.held for limit in real_time.limits_sync("one"))

    eventually(given, "the slot to be given")
    assert all(given() for _ in range(5)), "the keeper's loop has gone on"
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with real_time.slot(ONE, timeout=20):
        pass
    assert await held(real_time, "one") == 0


async def test_closing_the_app_gives_everything_back(real_time: App):
    slot = real_time.slot(ONE, timeout=20)
    await slot.__aenter__()
    await real_time.close()
    assert slot.lost
    assert await held(real_time, "one") == 0


async def test_a_thread_takes_a_slot_with_the_plain_with(real_time: App):
    def handler() -> str:
        with real_time.slot(ONE, timeout=20) as slot:
            return slot.id

    job = await asyncio.to_thread(handler)
    assert await (await real_time.job(job)).status() == "succeeded"


async def test_code_that_blocks_its_loop_keeps_its_slot(real_time: App):
    """The lease is renewed by another thread."""
    async with real_time.slot(ONE, timeout=20) as slot:
        threading.Event().wait(0.3)
        assert not slot.lost


async def test_a_slot_says_what_is_wrong_with_it():
    app = App("memory://")
    with pytest.raises(ConfigError, match="at least one limit"):
        app.slot()
    with pytest.raises(ConfigError, match="needs scope="):
        app.slot(ConcurrencyLimit(1))
    with pytest.raises(ConfigError, match="is not a limit"):
        app.slot(3)  # type: ignore[arg-type]
    slot = app.slot(ONE)
    with pytest.raises(HeadgateError, match="not held"):
        _ = slot.id
    async with slot:
        with pytest.raises(HeadgateError, match="held already"):
            await slot.__aenter__()
    async with slot:
        pass
    await app.close()


async def test_a_request_that_expired_is_made_again_while_its_code_waits(
    real_time: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headgate.app.slots.STAND", SECOND // 2)

    async def ask() -> None:
        async with real_time.slot(ONE, timeout=60):
            pass

    async def first() -> WaiterInfo | None:
        return next(iter((await real_time.key("one", waiters=10)).waiters), None)

    async with real_time.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        before = await until(first, "code to stand in line")

        async def again() -> WaiterInfo | None:
            now = await first()
            return now if now is not None and now.job != before.job else None

        after = await until(again, "it to be asked for again")
        assert (await real_time.handle(after.job).info()).due == (
            await real_time.handle(before.job).info()
        ).due
    await asking
    assert await held(real_time, "one") == 0


async def test_closing_the_app_leaves_no_request_behind(real_time: App):
    await real_time.slot(ONE, timeout=20).__aenter__()
    await real_time.close()
    assert [job.id for job in await real_time.jobs(queue="slots") if not job.state.ended] == []
