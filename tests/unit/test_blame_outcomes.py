"""What blame (rule 15) leads to: a simulation of workers and poison, in steps of a second, driven by blame.py itself.

The guilty fail, the innocent never do, whatever the seed. The scenarios are those of docs/decisions/025-blame.md.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from headgate.clock import SECOND
from headgate.engine.rules.blame import GRAVE, Blamed, Room, blame, died_by, gravity, level
from headgate.retry import RetryPolicy

LEASE = 15 * SECOND
RENEWAL = 5 * SECOND
BACK = 3 * SECOND
"""How long it takes until a worker that died works again."""


class Simulated:
    """A job as blame sees it, and what it does."""

    retry = RetryPolicy()

    def __init__(self, place: int, poison: bool, seconds: float) -> None:
        self.place = place
        self.poison = poison
        self.takes = int(seconds * SECOND)
        self.suspicion = self.lost = self.lost_after = 0
        self.started_at: int | None = None

    def take(self, verdict: Blamed) -> None:
        self.suspicion, self.lost, self.lost_after = verdict.suspicion, verdict.lost, verdict.lost_after
        self.started_at = None

    def age(self, now: int) -> int:
        assert self.started_at is not None
        return now - self.started_at


class Case(msgspec.Struct, frozen=True):
    """What is there at first, and what happens to it.

    `fuse` is after how many seconds a guilty job strikes, give or take `jitter`; `kills` are the seconds at which every
    worker is killed; `noticed` is how long it takes until the store knows of a loss: nothing with a supervisor, a lease
    without one.
    """

    innocent: int = 200
    poison: int = 1
    workers: int = 2
    concurrency: int = 100
    seconds: float = 5
    fuse: float = 1
    jitter: float = 0
    kills: tuple[int, ...] = ()
    noticed: int = 0


class World:
    """Workers, a line of jobs, and time."""

    def __init__(self, seed: int, case: Case) -> None:
        self.random = random.Random(seed)
        self.case = case
        guilty = set(self.random.sample(range(case.innocent + case.poison), case.poison))
        self.jobs = [
            Simulated(n, n in guilty, case.seconds * self.random.uniform(0.5, 1.5))
            for n in range(case.innocent + case.poison)
        ]
        self.line = list(self.jobs)
        self.running: list[list[Simulated]] = [[] for _ in range(case.workers)]
        self.down = [0] * case.workers
        self.lost: list[tuple[int, int, list[Simulated]]] = []
        self.now = self.crashes = self.last_end = 0
        self.done: list[Simulated] = []
        self.failed: list[Simulated] = []

    def run(self) -> None:
        while self.line or self.lost or any(self.running):
            assert self.now < 30_000 * SECOND, "it never ends"
            self._notice()
            for number in range(len(self.running)):
                if self.now >= self.down[number]:
                    self._claim(number)
                    self._live(number)
            self.now += SECOND

    def _claim(self, number: int) -> None:
        """As the engines do: the grave suspect before everything else, lighter ones in their place."""
        mine = self.running[number]
        room = Room(self.case.concurrency, (level(job, self.now) for job in mine))
        suspects = sorted(
            (job for job in self.line if job.suspicion),
            key=lambda job: (-gravity(job.suspicion), job.place),
        )
        fit = set(room.first(suspects))
        chosen = [job for job in fit if job.suspicion >= GRAVE]
        chosen += [job for job in self.line if not job.suspicion or (job in fit and job.suspicion < GRAVE)]
        chosen = chosen[: self.case.concurrency - len(mine)]
        for job in chosen:
            job.started_at = self.now
            if job.poison:
                jitter = self.case.jitter
                job.takes = int((self.case.fuse + self.random.uniform(-jitter, jitter)) * SECOND)
        self.line = [job for job in self.line if job.started_at is None]
        mine += chosen

    def _live(self, number: int) -> None:
        mine = self.running[number]
        ended = [job for job in mine if job.age(self.now) >= job.takes]
        innocent = [job for job in ended if not job.poison]
        for job in innocent:
            mine.remove(job)
            self.last_end = self.now
        self.done += innocent
        if len(ended) > len(innocent) or self.now // SECOND in self.case.kills:
            self.crashes += 1
            self.lost.append((self.now + self.case.noticed, self.now - self.now % RENEWAL, mine))
            self.running[number] = []
            self.down[number] = self.now + BACK

    def _notice(self) -> None:
        for loss in [loss for loss in self.lost if loss[0] <= self.now]:
            self.lost.remove(loss)
            _, seen, jobs = loss
            for job, verdict in zip(jobs, blame(jobs, seen, died_by(seen, LEASE, self.now)), strict=True):
                job.take(verdict)
                (self.failed if verdict.fails else self.line).append(job)
        self.line.sort(key=lambda job: job.place)


CASES = {
    "one": Case(),
    "one, noticed late": Case(noticed=LEASE),
    "none": Case(poison=0),
    "three of a thousand": Case(poison=3, innocent=1000, workers=4),
    "five of a thousand, noticed late": Case(poison=5, innocent=1000, workers=4, noticed=LEASE),
    "long jobs": Case(seconds=600),
    "long jobs, noticed late": Case(seconds=600, noticed=LEASE),
    "strikes late": Case(seconds=60, fuse=40),
    "strikes at random": Case(seconds=60, fuse=20, jitter=15),
    "deploys": Case(poison=0, seconds=600, kills=(50, 120, 200)),
    "deploys and poison": Case(seconds=60, kills=(50, 120, 200)),
    "five deploys and poison": Case(seconds=60, kills=(20, 50, 80, 110, 150)),
    "one place per worker": Case(innocent=40, workers=8, concurrency=1),
    "few places": Case(innocent=60, workers=3, concurrency=10),
}
CRASHES = {"strikes at random": 12}
"""Per guilty job, where it is more than usual."""


def ran(seed: int, case: Case) -> World:
    world = World(seed, case)
    world.run()
    return world


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", CASES)
def test_the_guilty_fail_and_the_innocent_do_not(name: str, seed: int):
    case = CASES[name]
    world = ran(seed, case)
    assert [job.poison for job in world.failed] == [True] * case.poison
    assert len(world.done) == case.innocent
    assert world.crashes <= CRASHES.get(name, 7) * case.poison + len(case.kills) * case.workers


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("noticed", "longer"), [(0, 1.25), (LEASE, 1.55)])
def test_a_crash_slows_long_jobs_by_about_half_at_most(seed: int, noticed: int, longer: float):
    calm, struck = Case(poison=0, seconds=600), Case(seconds=600, noticed=noticed)
    assert ran(seed, struck).last_end <= ran(seed, calm).last_end * longer


@pytest.mark.parametrize("seed", range(5))
def test_a_single_deploy_costs_long_jobs_nothing_but_what_it_threw_away(seed: int):
    calm, deployed = Case(poison=0, seconds=600), Case(poison=0, seconds=600, kills=(300,))
    assert ran(seed, deployed).last_end <= ran(seed, calm).last_end + 300 * SECOND + BACK + SECOND
