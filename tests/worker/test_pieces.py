"""Pieces of a worker on their own, where a whole worker would hide what they do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from headgate.clock import SECOND
from headgate.engine.contract import Spent, Succeeded, Swept
from headgate.hooks.context import JobContext
from headgate.worker.bell import Bell
from headgate.worker.duties.sweep import SHORTEST_PAUSE, Sweep
from headgate.worker.events import Events
from headgate.worker.run.outbox import Outbox
from headgate.worker.run.running_attempt import RunningAttempt
from headgate.worker.run.threads import Threads
from tests.worker.stand_in import StandIn, attempt, runner_of


async def forever():
    await asyncio.Event().wait()


async def test_outcomes_that_could_not_be_sent_go_first_next_time():
    loop = asyncio.get_running_loop()
    outbox = Outbox(loop, Bell(loop))
    outbox.settle(Succeeded("first", 1))
    unsent = outbox.take()
    outbox.settle(Succeeded("second", 1))
    outbox.put_back(unsent)
    assert [report.job for report in outbox.take()] == ["first", "second"]


async def test_what_was_spent_goes_before_the_outcome_and_only_the_last_word():
    loop = asyncio.get_running_loop()
    outbox, one = Outbox(loop, Bell(loop)), attempt("j", "work")
    outbox.settle(Succeeded("j", 1))
    for units in (5, 7):
        outbox.spent(one, "tokens", units)
    assert not outbox.empty
    unsent = outbox.take()
    assert unsent == [Spent("j", 1, "tokens", 7), Succeeded("j", 1)]
    outbox.spent(one, "tokens", 9)
    outbox.put_back(unsent)
    assert outbox.take() == [Spent("j", 1, "tokens", 9), Succeeded("j", 1)]
    outbox.put_back(unsent)
    outbox.keep(())
    assert outbox.empty


async def test_an_attempt_is_abandoned_though_a_later_one_of_its_job_is_alive():
    loop, task, threads = asyncio.get_running_loop(), StandIn("work", forever), Threads(1, "test")
    outbox = Outbox(loop, Bell(loop))
    runner = runner_of(loop, task, outbox, threads)
    runner.start(attempt("j", "work"))
    assert runner.abandon({("j", 1)}) == 0
    assert runner.abandon({("j", 2)}) == 1


def test_the_first_reason_to_end_counts_unless_the_attempt_is_abandoned():
    sink: Any = None
    run = RunningAttempt(
        attempt("j", "work"), StandIn("work", forever), JobContext(attempt("j", "work"), sink)
    )
    run.interrupt("release")
    run.interrupt("cancel")
    assert run.stop_reason == "release"
    run.interrupt("abandon")
    assert run.stop_reason == "abandon"


async def test_a_sweep_that_has_more_to_do_is_followed_by_another_at_once():
    loop = asyncio.get_running_loop()

    async def sweep() -> Swept:
        return Swept(1000, 0, 0, 0, True, None, 0)

    part: Any = SimpleNamespace(sweep=sweep)
    duty = Sweep(part, loop, Bell(loop), Events())
    assert await duty.sweep() == SHORTEST_PAUSE
    await asyncio.sleep(2 * SHORTEST_PAUSE)
    assert await duty.run_once() == SHORTEST_PAUSE, "it did not wait for its regular time"


async def test_the_timer_of_an_attempt_ends_with_it():
    async def work():
        pass

    loop, task, threads = asyncio.get_running_loop(), StandIn("work", work), Threads(1, "test")
    outbox = Outbox(loop, bell := Bell(loop))
    runner = runner_of(loop, task, outbox, threads)
    runner.start(attempt("j", "work", timeout=3600 * SECOND))
    timer = runner.running["j"].timer
    await bell.sleep(5)
    assert outbox.take() == [Succeeded("j", 1, "null")]
    assert timer is not None
    assert timer.cancelled()
