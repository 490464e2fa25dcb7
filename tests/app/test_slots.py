"""Slots for code that is no job: in the same lines as jobs, given back however the block ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
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
from tests.support.stores import STORES, fresh_url
from tests.support.waiting import eventually, turns, until

CRM = ConcurrencyLimit(2, scope="crm")
ONE = ConcurrencyLimit(1, scope="one")


@pytest.fixture(params=["memory", *STORES])
async def slots(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    """An app by the store's own clock; the audit finds nothing at the end."""
    if request.param == "memory":
        async with App("memory://") as app:
            yield app
            assert (await app.audit()).ok
        return
    with fresh_url(request.param, tmp_path) as url:
        async with App(url) as app:
            yield app
            assert (await app.audit()).ok


async def held(app: App, key: str) -> int:
    return next((limit.held for limit in await app.limits() if limit.key == key), 0)


async def waiters(app: App, count: int) -> tuple[WaiterInfo, ...]:
    """What waits for `one`, once there are so many."""

    async def enough() -> tuple[WaiterInfo, ...]:
        found = (await app.key("one", waiters=10)).waiters
        return found if len(found) == count else ()

    return await until(enough, "code to stand in line")


async def test_a_slot_is_held_inside_the_block_and_given_back_after_it(slots: App):
    async with slots.slot(CRM, timeout=20) as slot:
        assert await held(slots, "crm") == 1
        assert not slot.lost
        (holder,) = (await slots.key("crm")).holders
        assert holder.job == slot.id
    assert await held(slots, "crm") == 0


async def test_code_and_jobs_never_have_more_than_the_limit_together(slots: App):
    running, most = 0, 0

    async def together() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    @slots.task
    async def work(crm: Annotated[str, ConcurrencyLimit(2, scope="crm", key="all")]) -> None:
        await together()

    async def handler() -> None:
        async with slots.slot(ConcurrencyLimit(2, scope="crm", key="all"), timeout=30):
            await together()

    async with slots.worker(concurrency=10):
        jobs = await slots.enqueue_many(work.job("x") for _ in range(10))
        await asyncio.gather(*(handler() for _ in range(10)))
        await asyncio.gather(*(job.result(timeout=30) for job in jobs))
    assert most == 2


async def test_an_error_in_the_block_gives_the_slot_back(slots: App):
    with pytest.raises(ZeroDivisionError):
        async with slots.slot(ONE, timeout=20):
            raise ZeroDivisionError
    assert await held(slots, "one") == 0


async def test_without_room_a_timeout_leaves_the_line(slots: App):
    async with slots.slot(ONE, timeout=20):
        with pytest.raises(TimeoutError, match=r"no slot was free within 0\.2 seconds"):
            async with slots.slot(ONE, timeout=0.2):
                pass
        (one,) = await slots.limits("one")
        assert (one.held, one.waiting) == (1, 0)


async def test_slots_are_given_in_the_order_of_priority_and_arrival(slots: App):
    order: list[str] = []

    async def ask(name: str, priority: int) -> None:
        async with slots.slot(ONE, priority=priority, timeout=30):
            order.append(name)

    async with slots.slot(ONE, timeout=20):
        asking: list[asyncio.Task[None]] = []
        for name, priority in (("a", 50), ("b", 50), ("urgent", 1)):
            asking.append(asyncio.create_task(ask(name, priority)))
            await waiters(slots, len(asking))
    await asyncio.gather(*asking)
    assert order == ["urgent", "a", "b"]


async def test_tokens_are_spent_with_the_slot(slots: App):
    tokens = RateLimit(2, per=3600, scope="tokens")
    for _ in range(2):
        async with slots.slot(ONE, tokens, timeout=20):
            pass
    with pytest.raises(TimeoutError):
        async with slots.slot(ONE, tokens, timeout=0.2):
            pass
    async with slots.slot(ONE, timeout=20):
        pass


async def test_a_slot_that_an_operator_cancels_is_lost(slots: App):
    async with slots.slot(ONE, timeout=20) as slot:
        await (await slots.job(slot.id)).cancel()
        async with asyncio.timeout(20):
            await slot.wait_lost()
        assert slot.lost
        with pytest.raises(SlotLost):
            slot.raise_if_lost()


async def test_one_that_is_cancelled_while_it_waits_says_so(slots: App):
    async def ask() -> None:
        async with slots.slot(ONE):
            raise AssertionError("it was given a slot")

    async with slots.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        (waiting,) = await waiters(slots, 1)
        await (await slots.job(waiting.job)).cancel()
        with pytest.raises(JobCancelled, match="the slot was not given"):
            await asking


async def test_a_caller_that_is_cancelled_leaves_nothing(slots: App):
    async def ask() -> None:
        async with slots.slot(ONE):
            raise AssertionError("it was given a slot")

    async with slots.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        await waiters(slots, 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    async with slots.slot(ONE, timeout=20):
        pass
    assert await held(slots, "one") == 0


async def test_a_caller_that_goes_as_the_slot_is_given_leaves_nothing(slots: App):
    """Its loop is held up until the store has given the slot, and hears of that only when it is cancelled already."""
    await slots.open()
    asking = asyncio.create_task(slots.slot(ONE).__aenter__())
    await turns(2)

    def given() -> bool:
        return any(limit.held for limit in slots.limits_sync("one"))

    eventually(given, "the slot to be given")
    assert all(given() for _ in range(5)), "the keeper's loop has gone on"
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with slots.slot(ONE, timeout=20):
        pass
    assert await held(slots, "one") == 0


async def test_closing_the_app_gives_everything_back(slots: App):
    slot = slots.slot(ONE, timeout=20)
    await slot.__aenter__()
    await slots.close()
    assert slot.lost
    assert await held(slots, "one") == 0


async def test_a_thread_takes_a_slot_with_the_plain_with(slots: App):
    def handler() -> str:
        with slots.slot(ONE, timeout=20) as slot:
            return slot.id

    job = await asyncio.to_thread(handler)
    assert await (await slots.job(job)).status() == "succeeded"


async def test_code_that_blocks_its_loop_keeps_its_slot(slots: App):
    """The lease is renewed by another thread."""
    async with slots.slot(ONE, timeout=20) as slot:
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
    slots: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headgate.app.slots.STAND", SECOND // 2)

    async def ask() -> None:
        async with slots.slot(ONE, timeout=60):
            pass

    async def first() -> WaiterInfo | None:
        return next(iter((await slots.key("one", waiters=10)).waiters), None)

    async with slots.slot(ONE, timeout=20):
        asking = asyncio.create_task(ask())
        before = await until(first, "code to stand in line")

        async def again() -> WaiterInfo | None:
            now = await first()
            return now if now is not None and now.job != before.job else None

        after = await until(again, "it to be asked for again")
        assert (await slots.handle(after.job).info()).due == (await slots.handle(before.job).info()).due
    await asking
    assert await held(slots, "one") == 0


async def test_closing_the_app_leaves_no_request_behind(slots: App):
    await slots.slot(ONE, timeout=20).__aenter__()
    await slots.close()
    assert [job.id for job in await slots.jobs(queue="slots") if not job.state.ended] == []
