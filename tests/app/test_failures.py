"""What went wrong: found by text and time, grouped by cause, and run again with other arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    JobNotFound,
    PayloadError,
    WrongState,
)
from headgate.app.failures import pattern_of
from headgate.testing import Clock


@pytest.fixture
def shop(app: App) -> App:
    @app.task
    async def send(to: str, copies: int = 1) -> str:
        if "@" not in to:
            raise ValueError(f"{to!r} is no address (attempt of job 4711)")
        return f"{to} {copies}"

    @app.task
    async def charge(customer: int, amount: int = 1, rest: str = "") -> None:
        if amount < 0:
            raise RuntimeError(f"100% of {amount} cannot be charged to customer {customer}")

    return app


async def test_failures_of_one_cause_are_one_group(shop: App, clock: Clock):
    for to in ("ada", "bob", "eve"):
        await shop.tasks["send"].enqueue(to)
        await shop.run_until_idle()
        clock.advance(60)
    last = await shop.tasks["charge"].enqueue(7, -5)
    await shop.run_until_idle()
    found = await shop.failures()
    assert (found.jobs, found.more) == (4, False)
    send, charge = found.groups
    assert (send.task, send.count, send.error_type) == ("send", 3, "ValueError")
    assert send.pattern == "ValueError: '…' is no address (attempt of job …)"
    assert send.error == "ValueError: 'eve' is no address (attempt of job 4711)"
    assert send.last - send.first == timedelta(minutes=2)
    assert len(send.ids) == 3
    assert (charge.task, charge.ids) == ("charge", (last.id,))
    assert await shop.count(error=send.common) == 3


async def test_a_look_at_failures_is_bounded_and_says_so(shop: App):
    await shop.enqueue_many(shop.tasks["send"].job(str(n)) for n in range(5))
    await shop.run_until_idle()
    found = await shop.failures(size=3)
    assert (found.jobs, found.more, found.groups[0].count) == (3, True, 3)
    assert not (await shop.failures(size=5)).more


async def test_failures_are_filtered_and_other_states_refused(shop: App):
    await shop.tasks["send"].options(tenant="acme").enqueue("ada")
    await shop.tasks["charge"].enqueue(7, -5)
    await shop.run_until_idle()
    assert [group.task for group in (await shop.failures(tenant="acme")).groups] == ["send"]
    assert [group.task for group in (await shop.failures(task="charge")).groups] == ["charge"]
    assert (await shop.failures(queue="other")).groups == ()
    with pytest.raises(ConfigError, match="failed jobs"):
        await shop.failures(state="ready")


async def test_jobs_are_found_by_their_error_and_by_when_they_ended(shop: App, clock: Clock):
    first = await shop.tasks["charge"].enqueue(1, -5)
    await shop.run_until_idle()
    begun = clock.now()
    clock.advance(3600)
    second = await shop.tasks["charge"].enqueue(2, -5)
    await shop.run_until_idle()
    clock.advance(60)

    async def ids(**filter):
        return {job.id for job in await shop.jobs(**filter)}

    assert await ids(error="100% of -5") == {first.id, second.id}
    assert await ids(error="100_ of") == set()
    assert await ids(error="customer 1") == {first.id}
    assert await ids(since=1800) == {second.id}
    assert await ids(until=timedelta(minutes=30)) == {first.id}
    assert await ids(since=begun.isoformat(), until=begun + timedelta(seconds=1)) == {first.id}
    assert await shop.count(since=1800) == 1
    assert (await shop.restart(error="customer 2", since=7200)).done == 1
    assert await ids(state="failed") == {first.id}


@pytest.mark.parametrize(
    "filter",
    [{"error": ""}, {"error": "a\nb"}, {"error": 5}, {"since": "soon"}, {"until": -1}, {"since": True}],
)
async def test_a_filter_that_makes_no_sense_is_refused(shop: App, filter):
    with pytest.raises(ConfigError):
        await shop.jobs(**filter)


def test_what_differs_from_job_to_job_is_folded():
    assert pattern_of("KeyError: 'abc def'\nTraceback") == "KeyError: '…'"
    assert pattern_of("OSError: can't open, won't try") == "OSError: can't open, won't try"
    assert (
        pattern_of("HTTPError: 503 for job 019a8b2c-7d11-7e00-8000-0123456789ab") == "HTTPError: … for job …"
    )
    assert pattern_of("E: connect to 10.0.0.1:5432 <at 0x7fde12>") == "E: connect to … <at …>"
    assert pattern_of(None) == ""


async def test_a_job_is_restarted_with_other_arguments(shop: App):
    job = await shop.tasks["send"].enqueue("ada", 3)
    await shop.run_until_idle()
    assert (await shop.restart(job.id, arguments={"to": "ada@example.com"})).done == 1
    assert await shop.run_until_idle() == 1
    assert await job.result() == "ada@example.com 3"
    assert (await job.info()).args == {"to": "ada@example.com", "copies": 3}


async def test_limits_are_bound_to_the_new_arguments_and_those_of_the_job_stay(app: App):
    @app.task(limits=[ConcurrencyLimit("customer", max_concurrent=1, scope="customer")])
    async def sync(customer: int, broken: bool = True) -> None:
        if broken:
            raise RuntimeError("broken")

    job = await sync.options(limits=[ConcurrencyLimit(5, scope="user", key="123")]).enqueue(1)
    await app.run_until_idle()
    await job.restart({"customer": 2, "broken": False})
    info = await job.info()
    assert set(info.limits) == {"customer=2", "user=123"}
    await app.run_until_idle()
    assert await job.status() == "succeeded"


async def test_new_arguments_that_do_not_fit_change_nothing(shop: App):
    job = await shop.tasks["send"].enqueue("ada")
    await shop.run_until_idle()
    before = await job.info()
    for arguments in ({"to": 5}, {"too": "ada@example.com"}, {"copies": "many"}):
        with pytest.raises(PayloadError):
            await shop.restart(job.id, arguments=arguments)
    wrong: Any = "to=ada"
    for which, arguments in ((job.id, wrong), ([job.id], {"to": "a@b"})):
        with pytest.raises(ConfigError):
            await shop.restart(which, arguments=arguments)
    with pytest.raises(ConfigError, match="no filter"):
        await shop.restart(task="send", arguments={"to": "a@b"})
    assert await job.info() == before


async def test_new_arguments_are_for_a_job_that_has_failed_and_that_this_program_knows(shop: App):
    job = await shop.tasks["send"].enqueue("ada@example.com")
    with pytest.raises(WrongState, match="ready"):
        await shop.restart(job.id, arguments={"to": "eve@example.com"})
    with pytest.raises(JobNotFound):
        await shop.restart("nonsense", arguments={"to": "eve@example.com"})
    other = await shop.enqueue(shop.raw_job("elsewhere", {"a": 1}))
    await other.cancel()
    with pytest.raises(ConfigError, match="no task 'elsewhere'"):
        await other.restart({"a": 2})
