"""Code that blocks the event loop is named, and does not cost the lease at once."""

from __future__ import annotations

import asyncio
import logging
import re
import time

import pytest

from headgate.job import JobState
from tests.worker.stand_in import FailingEngine, StandIn, ended, put, working

pytestmark = pytest.mark.slow


async def block(seconds):
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


async def test_a_job_that_blocks_the_event_loop_is_named_with_its_line_once(failing: FailingEngine, caplog):
    task = StandIn("block", block)
    id = await put(failing, task, args={"seconds": 1.8})
    async with working(failing, task) as (_, watcher):
        await ended(failing, id)
        await watcher.seen("unblocked")
    lines = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
    assert len(lines) == 2
    assert f"by job {id} (block), in line " in lines[0]
    assert "test_watchdog.py (block)" in lines[0]
    assert "time.sleep(seconds)" in lines[0]
    assert (found := re.match(r"the event loop goes on after (\S+) s; ", lines[1]))
    assert 1.7 <= float(found[1]) < 10
    assert {record.levelno for record in caplog.records if "blocked" in record.message} == {logging.WARNING}


async def test_a_blocked_event_loop_keeps_its_lease_for_a_while(failing: FailingEngine):
    task = StandIn("block", block)
    id = await put(failing, task, args={"seconds": 2.2})
    async with working(failing, task, lease=1.5) as (worker, watcher):
        first = worker.id
        (job,) = await ended(failing, id)
        assert worker.id == first
        assert watcher.count("fenced") == 0
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)


async def test_an_event_loop_that_is_blocked_for_too_long_loses_its_lease(failing: FailingEngine):
    task = StandIn("block", block)
    id = await put(failing, task, args={"seconds": 4.6})
    async with working(failing, task, lease=1.2) as (_, watcher):
        await watcher.seen("fenced")
        await failing.cancel([id])


async def test_a_loop_that_goes_on_is_not_called_blocked(failing: FailingEngine, caplog):
    async def work():
        for _ in range(30):
            await asyncio.sleep(0.05)

    task = StandIn("work", work)
    id = await put(failing, task)
    async with working(failing, task):
        await ended(failing, id)
    assert "blocked" not in caplog.text
