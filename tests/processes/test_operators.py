"""Operators steer while workers are killed: whatever is committed fits together at every instant, and nothing stays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from headgate import JobExists, WrongState
from tests.processes.conftest import Place
from tests.support.child import Child

pytestmark = pytest.mark.slow(12)

SECONDS = 8.0
CUSTOMERS = 6


class Operator:
    """Enqueues and steers at random."""

    def __init__(self, place: Place, seed: int) -> None:
        self.app, self.shop = place.app, place.shop
        self.dice = random.Random(seed)
        self.ids: list[str] = []

    def job(self) -> Any:
        dice, seconds = self.dice, self.dice.uniform(0.001, 0.04)
        options: dict[str, Any] = {
            "priority": dice.choice([50, 50, 10]),
            "delay": dice.choice([0, 0, 0, 0.2]),
        }
        if dice.random() < 0.2:
            options |= {"unique": f"u{dice.randrange(4)}", "on_conflict": dice.choice(["return", "replace"])}
        task = dice.choice([self.shop.visit, self.shop.visit_in_thread, self.shop.load, self.shop.ship])
        if task is self.shop.ship:
            return task.options(**options).job(seconds)
        return task.options(**options).job(dice.randrange(CUSTOMERS), seconds)

    def act(self) -> None:
        """One verb. Some find nothing to do, or another verb in their way."""
        some = self.dice.sample(self.ids, min(len(self.ids), 5))
        customer = f"customer={self.dice.randrange(CUSTOMERS)}"
        verbs: list[Callable[[], object]] = [
            *[self.enqueue] * 6,
            lambda: self.app.cancel_sync(ids=some),
            lambda: self.app.restart_sync(ids=some),
            lambda: self.app.expedite_sync(ids=some),
            lambda: self.app.delete_sync(ids=some),
            lambda: self.app.set_limit_sync(customer, self.dice.choice([0, 1]), by="test"),
            lambda: self.app.clear_limit_sync(customer),
            lambda: self.app.pause_sync("default"),
            *[lambda: self.app.resume_sync("default")] * 3,
        ]
        with suppress(JobExists, WrongState):
            self.dice.choice(verbs)()

    def enqueue(self) -> None:
        jobs = [self.job() for _ in range(self.dice.choice([1, 1, 4, 12]))]
        self.ids = [*self.ids, *(handle.id for handle in self.app.enqueue_many_sync(jobs))][-200:]

    def calm_down(self) -> None:
        self.app.resume_sync("default")
        for customer in range(CUSTOMERS):
            self.app.clear_limit_sync(f"customer={customer}")


def test_all_fits_together_at_every_instant_and_nothing_stays(place: Place, until_done: Callable[..., None]):
    operator = Operator(place, 21)
    workers: list[Child] = [place.worker(lease=2, concurrency=most, wait=False) for most in (2, 6, 20)]
    end = time.monotonic() + SECONDS
    kill_at = time.monotonic() + 1.5
    looks = 0
    while time.monotonic() < end:
        for _ in range(5):
            operator.act()
        report = place.app.audit_sync()
        assert report.ok, report.problems
        looks += 1
        if time.monotonic() > kill_at:
            place.kill(workers.pop(0))
            workers.append(place.worker(lease=2, concurrency=operator.dice.choice([2, 6, 20]), wait=False))
            kill_at = time.monotonic() + operator.dice.uniform(0.5, 2)
    operator.calm_down()
    until_done()

    assert looks > 20
    assert len(place.killed) >= 3
    overlaps = place.record.overlaps(place.killed)
    assert overlaps.pop("ship") <= 3
    assert overlaps.pop("dock") <= 4
    assert set(overlaps.values()) == {1}
    assert all(limit.held == limit.waiting == 0 for limit in place.app.limits_sync())
