"""Rate arithmetic: whole microseconds, never too many, never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.rates import Bucket, Meter, Pace, Window

NOW = 1_000_000


def bucket(limit: int | None = 4, period: int = 20, burst: int | None = None) -> Pace:
    return Pace(limit, period, burst or limit or 1)


def window(limit: int | None = 3, period: int = 10) -> Pace:
    return Pace(limit, period, limit or 1, exact=True)


def test_a_fresh_bucket_is_full() -> None:
    assert Bucket().free(bucket(), NOW) == 4


def test_a_spent_token_is_back_after_one_interval_and_not_before() -> None:
    meter = Bucket()
    meter.spend(bucket(), 4, NOW)
    assert [meter.free(bucket(), NOW + passed) for passed in (0, 4, 5, 9, 10, 20, 500)] == [
        0,
        0,
        1,
        1,
        2,
        4,
        4,
    ]


def test_when_is_the_first_moment_at_which_the_tokens_are_free() -> None:
    meter = Bucket()
    meter.spend(bucket(), 4, NOW)
    for units in (1, 2, 3, 4):
        at = meter.when(bucket(), units, NOW)
        assert at is not None
        assert meter.free(bucket(), at) >= units
        assert meter.free(bucket(), at - 1) < units


def test_more_than_the_burst_never_comes() -> None:
    assert Bucket().when(bucket(burst=2), 3, NOW) is None
    assert Window().when(window(), 4, NOW) is None


def test_tokens_that_are_there_come_now() -> None:
    assert Bucket().when(bucket(), 4, NOW) == NOW
    assert Window().when(window(), 3, NOW) == NOW


def test_an_interval_that_does_not_divide_is_rounded_up() -> None:
    assert Pace(3, 10, 3).interval == 4
    assert Pace(7, 60_000_000, 7).interval == 8_571_429


def test_a_closed_pace_can_have_no_tokens() -> None:
    assert Pace(0, 10, 1).most == 0
    assert Pace(None, 10, 1).most == 0
    assert Pace(5, 10, 2).most == 2
    assert Pace(5, 10, 2, exact=True).most == 5


def test_a_bucket_is_idle_when_it_is_full_again() -> None:
    meter = Bucket()
    meter.spend(bucket(), 1, NOW)
    assert not meter.idle(bucket(), NOW + 4)
    assert meter.idle(bucket(), NOW + 5)


def test_a_window_frees_each_start_one_period_later() -> None:
    meter, pace = Window(), window()
    for at in (0, 3, 4):
        meter.spend(pace, 1, NOW + at)
    assert [meter.free(pace, NOW + at) for at in (4, 9, 10, 12, 13, 14)] == [0, 0, 1, 1, 2, 3]


def test_a_window_says_when_enough_starts_will_have_left_it() -> None:
    meter, pace = Window(), window()
    for at in (0, 3, 4):
        meter.spend(pace, 1, NOW + at)
    assert [meter.when(pace, units, NOW + 5) for units in (1, 2, 3)] == [NOW + 10, NOW + 13, NOW + 14]


def test_a_window_remembers_costs() -> None:
    meter, pace = Window(), window()
    meter.spend(pace, 2, NOW)
    assert meter.free(pace, NOW) == 1
    assert meter.when(pace, 2, NOW + 1) == NOW + 10


def test_a_window_is_idle_when_all_its_starts_have_left() -> None:
    meter, pace = Window(), window()
    meter.spend(pace, 1, NOW)
    assert not meter.idle(pace, NOW + 9)
    assert meter.idle(pace, NOW + 10)


def test_a_lowered_limit_makes_a_window_wait_for_more_starts_to_leave() -> None:
    meter = Window()
    for at in (0, 1, 2):
        meter.spend(window(3), 1, NOW + at)
    assert meter.free(window(1), NOW + 5) == 0
    assert meter.when(window(1), 1, NOW + 5) == NOW + 12


@given(
    limit=st.integers(1, 6),
    period=st.integers(1, 50),
    burst=st.integers(1, 6),
    exact=st.booleans(),
    wishes=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4)), max_size=40),
)
def test_no_period_ever_sees_more_than_its_share(
    limit: int, period: int, burst: int, exact: bool, wishes: list[tuple[int, int]]
) -> None:
    pace = Pace(limit, period, burst, exact)
    meter: Meter = Window() if exact else Bucket()
    now, spent = 0, list[tuple[int, int]]()
    for pause, units in wishes:
        now += pause
        if meter.free(pace, now) >= units:
            meter.spend(pace, units, now)
            spent.append((now, units))
    for begin, _ in spent:
        for length in (period, 2 * period):
            seen = sum(units for at, units in spent if begin <= at < begin + length)
            allowed = limit * (length // period) if exact else burst + -(-length // pace.interval)
            assert seen <= allowed


@given(
    limit=st.integers(1, 6),
    period=st.integers(1, 50),
    burst=st.integers(1, 6),
    exact=st.booleans(),
    wishes=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), max_size=20),
    units=st.integers(1, 8),
)
def test_when_is_exact_whatever_was_spent(
    limit: int, period: int, burst: int, exact: bool, wishes: list[tuple[int, int]], units: int
) -> None:
    pace = Pace(limit, period, burst, exact)
    meter: Meter = Window() if exact else Bucket()
    now = 0
    for pause, cost in wishes:
        now += pause
        if meter.free(pace, now) >= cost:
            meter.spend(pace, cost, now)
    at = meter.when(pace, units, now)
    if at is None:
        assert units > pace.most
        return
    assert at >= now
    if at > now:
        assert meter.free(pace, at - 1) < units
    assert meter.free(pace, at) >= units


@pytest.mark.parametrize("meter", [Bucket(), Window()])
def test_asking_spends_nothing(meter: Meter) -> None:
    pace = Pace(2, 10, 2, isinstance(meter, Window))
    for _ in range(5):
        assert meter.free(pace, NOW) == 2
        assert meter.when(pace, 2, NOW) == NOW
