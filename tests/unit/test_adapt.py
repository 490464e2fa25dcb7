"""What a learner makes of how attempts end."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest

from headgate import Adapt, ConfigError
from headgate.limits.adapt import PROBE_CALLS, Ended, Learner

GOOD: list[Ended] = ["good"]
REFUSED: list[Ended] = ["throttled"]


def one_round(learner: Learner, *ends: Ended, now: float) -> list[tuple[int, str]]:
    """Attempts that begin together and end together; returns what was asked for."""
    for _ in ends:
        learner.began()
    changes = [change for how in ends if (change := learner.ended(how, 0.5, now))]
    return [(change.number, change.reason) for change in changes]


def test_a_round_without_trouble_raises_the_number_by_one():
    learner = Learner(Adapt(), 4, 10, now=0)
    assert one_round(learner, *GOOD * 4, now=1) == [(5, "all goes well at the limit")]


def test_it_never_rises_above_its_most_nor_falls_below_its_least():
    assert one_round(Learner(Adapt(), 4, 4, now=0), *GOOD * 8, now=1) == []
    assert one_round(Learner(Adapt(min=4), 4, 10, now=0), *REFUSED * 8, now=1) == []
    learner = Learner(Adapt(max=6), 6, 100, now=0)
    assert one_round(learner, *GOOD * 6, now=1) == []


def test_where_much_is_refused_it_falls_to_what_was_not():
    learner = Learner(Adapt(), 50, 50, now=0)
    changes = one_round(learner, *GOOD * 45, "throttled", now=1)
    assert changes[-1] == (45, "throttled")
    learner = Learner(Adapt(), 50, 50, now=0)
    assert one_round(learner, "throttled", now=1) == [(25, "throttled")]


def test_what_began_under_another_number_says_nothing_about_this_one():
    learner = Learner(Adapt(), 50, 50, now=0)
    for _ in range(50):
        learner.began()
    assert learner.ended("throttled", 0.5, 1.0)
    learner.see(25, 1.0)
    assert [learner.ended("throttled", 0.5, 1.2) for _ in range(49)] == [None] * 49


def test_a_number_that_was_too_much_is_tried_again_only_seldom():
    learner = Learner(Adapt(), 9, 20, now=0)
    one_round(learner, "throttled", now=1)
    learner.see(8, 1)
    rounds = 0
    while not one_round(learner, *GOOD * 8, now=3):
        rounds += 1
    assert (rounds + 1) * 8 >= PROBE_CALLS


def test_another_worker_s_fall_is_a_warning_too():
    learner = Learner(Adapt(), 9, 20, now=0)
    learner.see(8, 1)
    assert one_round(learner, *GOOD * 8, now=3) == []


def test_when_more_is_borne_than_before_it_rises_faster_and_faster():
    learner = Learner(Adapt(), 8, 100, now=0)
    learner.see(9, 0)
    learner.see(8, 0)
    numbers: list[int] = []
    now = 0.0
    while len(numbers) < 5:
        now += 1
        for number, _ in one_round(learner, *GOOD * learner.number, now=now):
            numbers.append(number)
            learner.see(number, now)
            now += 1
    steps = [after - before for before, after in zip([8, *numbers], numbers, strict=False)]
    assert steps == [1, 2, 4, 8, 16]


def test_a_rise_that_is_asked_for_several_times_is_one_step():
    learner = Learner(Adapt(), 8, 100, now=0)
    learner.see(9, 0)
    learner.see(8, 0)
    learner.see(9, 1)
    asked = [number for now in (2, 3, 4) for number, _ in one_round(learner, *GOOD * 9, now=now)]
    assert set(asked) == {11}
    learner.see(11, 5)
    assert [number for number, _ in one_round(learner, *GOOD * 11, now=6)] == [15]


def test_what_was_too_much_by_a_step_falls_back_by_it():
    learner = Learner(Adapt(), 8, 100, now=0)
    learner.see(9, 0)
    (change,) = one_round(learner, "throttled", now=1)
    assert change[0] == 8


def test_a_rise_that_was_not_wanted_does_not_undo_what_went_well():
    learner = Learner(Adapt(), 10, 20, now=0)
    one_round(learner, *GOOD * 30, now=1)
    learner.not_full()
    (change,) = one_round(learner, "throttled", now=2)
    assert change[0] == 9


def test_attempts_that_take_longer_than_usual_lower_it():
    learner = Learner(Adapt(slow=2), 10, 20, now=0)
    learner.most = 10
    for _ in range(20):
        learner.began()
        assert learner.ended("good", 0.1, 1.0) is None
    found = []
    for _ in range(20):
        learner.began()
        found.append(learner.ended("good", 0.4, 1.0))
    (first, *_) = [change for change in found if change]
    assert (first.number, first.reason) == (9, "attempts take longer than usual")


@pytest.mark.parametrize("wrong", [{"min": 0}, {"min": 5, "max": 4}, {"decrease": 1.0}, {"slow": 0.5}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, float]):
    with pytest.raises(ConfigError):
        Adapt(**wrong)  # type: ignore[arg-type]


@dataclass
class Service:
    """Bears `capacity` calls at once, refuses more, and slows down before that."""

    capacity: int
    busy: list[tuple[float, str]] = field(default_factory=list)

    def call(self, now: float) -> tuple[Ended, float]:
        load = (sum(how == "good" for _, how in self.busy) + 1) / self.capacity
        return ("throttled", 0.002) if load > 1 else ("good", 0.05 * (1 + max(0, load - 0.7)))


def converge(capacity: int, calls: int, number: int) -> tuple[list[int], list[bool]]:
    """The number in force and whether the service refused, call by call."""
    service, learner, now = Service(capacity), Learner(Adapt(), number, 50, 0), 0.0
    numbers: list[int] = []
    refused: list[bool] = []
    while len(numbers) < calls:
        while len(service.busy) < learner.number:
            how, took = service.call(now)
            learner.began()
            heapq.heappush(service.busy, (now + took, how))
            numbers.append(learner.number)
            refused.append(how != "good")
        end, how = heapq.heappop(service.busy)
        took, now = (0.05 if how == "good" else 0.002), end
        if change := learner.ended(how, took, now):  # type: ignore[arg-type]
            learner.see(change.number, now)
    return numbers, refused


@pytest.mark.parametrize("capacity", [4, 8, 20])
def test_it_finds_what_a_service_bears_within_two_hundred_calls(capacity: int):
    numbers, refused = converge(capacity, 2000, 50)
    assert 0.85 * capacity <= numbers[200] <= 1.15 * capacity
    assert sum(refused[300:]) < 0.03 * len(refused[300:])
