"""What blame (rule 15) leads to: a simulation of workers and poison, in steps of a second, driven by blame.py itself.

The guilty fail, the innocent never do, whatever the seed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.blame import Blamed, Room, blame, level
from headgate.retry import RetryPolicy


class Simulated:
    """A job as blame sees it, and what it does."""

    def __init__(self, poison: bool, losses: int) -> None:
        self.suspicion = self.lost = self.lost_after = 0
        self.started_at: int | None = None
        self.retry = RetryPolicy(losses=losses)
        self.poison = poison
        self.ends_at = 0

    def take(self, verdict: Blamed) -> None:
        self.suspicion, self.lost, self.lost_after = verdict.suspicion, verdict.lost, verdict.lost_after
        self.started_at = None


class World:
    """Workers, a line of jobs, and time. A worker that died is back after three seconds."""

    def __init__(
        self,
        seed: int,
        workers: int = 2,
        concurrency: int = 100,
        innocent: int = 200,
        poison: int = 1,
        seconds: float = 5,
        fuse: int = 1,
        losses: int = 3,
        kills: tuple[int, ...] = (),
    ) -> None:
        self.random = random.Random(seed)
        self.jobs = [Simulated(n < poison, losses) for n in range(innocent + poison)]
        self.random.shuffle(self.jobs)
        self.line = list(self.jobs)
        self.running: list[list[Simulated]] = [[] for _ in range(workers)]
        self.down = [0] * workers
        self.concurrency, self.seconds, self.fuse, self.kills = concurrency, seconds, fuse * SECOND, kills
        self.now = 0
        self.crashes = 0
        self.done: list[Simulated] = []
        self.failed: list[Simulated] = []

    def run(self) -> None:
        while self.line or any(self.running):
            assert self.now < 20_000 * SECOND, "it never ends"
            for number in range(len(self.running)):
                if self.now >= self.down[number]:
                    self._claim(number)
                    self._live(number)
            self.now += SECOND

    def _claim(self, number: int) -> None:
        mine = self.running[number]
        room = Room(self.concurrency, (level(job, self.now) for job in mine))
        suspects = room.first(job for job in self.line if job.suspicion)
        free = self.concurrency - len(mine)
        chosen = {*[job for job in self.line if not job.suspicion or job in suspects][:free]}
        for job in chosen:
            job.started_at = self.now
            job.ends_at = self.now + int(SECOND * self.seconds * self.random.uniform(0.5, 1.5))
        self.line = [job for job in self.line if job not in chosen]
        mine += chosen

    def _live(self, number: int) -> None:
        mine, later = self.running[number], self.now + SECOND
        dead = self.now // SECOND in self.kills
        for job in list(mine):
            assert job.started_at is not None
            if job.poison and later - job.started_at >= self.fuse:
                dead = True
            elif not job.poison and later >= job.ends_at:
                mine.remove(job)
                self.done.append(job)
        if dead:
            self._lose(number, later)

    def _lose(self, number: int, now: int) -> None:
        self.crashes += 1
        lost, self.running[number] = self.running[number], []
        self.down[number] = now + 3 * SECOND
        for job, verdict in zip(lost, blame(lost, now, now), strict=True):
            job.take(verdict)
            (self.failed if verdict.fails else self.line).append(job)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"poison": 0},
        {"poison": 3, "innocent": 1000, "workers": 4},
        {"seconds": 600},
        {"seconds": 60, "fuse": 40},
        {"poison": 0, "seconds": 600, "kills": (50, 120, 200), "losses": 5},
        {"poison": 1, "seconds": 60, "kills": (50, 120, 200), "losses": 5},
    ],
    ids=["one", "none", "three of a thousand", "long jobs", "late", "deploys", "deploys and poison"],
)
def test_the_guilty_fail_and_the_innocent_do_not(how: dict[str, Any], seed: int):
    world = World(seed, **how)
    world.run()
    poison = how.get("poison", 1)
    assert [job.poison for job in world.failed] == [True] * poison
    assert len(world.done) == len(world.jobs) - poison
    deploys = len(how.get("kills", ())) * len(world.running)
    assert world.crashes <= 7 * poison + deploys


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_does_not_slow_long_jobs_by_more_than_half(seed: int):
    calm, struck = World(seed, poison=0, seconds=600), World(seed, poison=1, seconds=600)
    calm.run()
    struck.run()
    assert struck.now <= calm.now * 1.5
