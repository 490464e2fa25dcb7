from __future__ import annotations

import logging

from headgate.clock import SECOND
from headgate.engine.contract import Rechecked, Swept
from headgate.engine.contract import Worker as Registration
from headgate.engine.memory import MemoryEngine
from headgate.retry import RetryPolicy
from headgate.worker.duties.recheck import Recheck
from headgate.worker.events import Events
from tests.worker.stand_in import FailingEngine, StandIn, put, working


async def nothing():
    pass


class Healing(MemoryEngine):
    """Three slices, in the second of which something was wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str | None] = []

    async def recheck(self, after=None, *, most=100, now=None):
        self.asked.append(after)
        return {
            None: Rechecked((), "a"),
            "a": Rechecked(("'k' was held by nobody",), "b"),
            "b": Rechecked((), None),
        }[after]


async def test_slices_follow_each_other_and_what_was_mended_is_an_error(caplog):
    engine = Healing()
    duty = Recheck(engine, Events())
    for _ in range(6):
        assert 1 < await duty.run_once() < 10
    assert engine.asked == [None, "a", "b", None, "a"], "not in the way of the first exchange"
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["the store was not in order, please report this: 'k' was held by nobody"] * 2


async def test_a_worker_rechecks_beside_its_work(failing: FailingEngine, monkeypatch):
    monkeypatch.setattr("headgate.worker.duties.recheck.RECHECK_INTERVAL", 0.01)
    async with working(failing, StandIn("work", nothing)) as (_, watcher):
        await watcher.seen("rechecked", 3)


async def test_a_job_that_failed_because_it_was_lost_is_an_error_line(failing: FailingEngine, caplog):
    task = StandIn("work", nothing)
    id = await put(failing, task, retry=RetryPolicy(losses=0))
    await failing.register(Registration("dead", frozenset({"work"}), lease=SECOND // 10))
    await failing.exchange("dead", (), 1)
    async with working(failing, StandIn("other", nothing)) as (_, watcher):
        while not caplog.records:
            await watcher.seen("swept", watcher.count("swept") + 1)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage().startswith(f"job {id} (work) failed: lost with its worker")
    assert (record.job, record.task) == (id, "work")
    assert Swept(0, 0, 0, 0, False, None, 0).failed == ()
