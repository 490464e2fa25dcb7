"""Retry policies: how long to wait, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.clock import SECOND
from headgate.errors import ConfigError
from headgate.retry import LOST_ONLY, Retry, RetryPolicy


def test_an_exponential_back_off_doubles_up_to_its_largest_delay() -> None:
    policy = RetryPolicy(10, SECOND, 2.0, 10 * SECOND)
    assert [policy.wait(tries) // SECOND for tries in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_back_off_of_one_keeps_the_delay() -> None:
    policy = RetryPolicy(10, 3 * SECOND, 1.0)
    assert {policy.wait(tries) for tries in range(1, 50)} == {3 * SECOND}


def test_no_delay_stays_none() -> None:
    assert RetryPolicy(5, 0, 1000.0).wait(5) == 0


@given(st.integers(1, 10**6), st.integers(0, 10**12), st.floats(1, 1000), st.integers(0, 10**12))
def test_any_number_of_tries_has_a_delay_within_its_bounds(
    tries: int, delay: int, backoff: float, max_delay: int
) -> None:
    wait = RetryPolicy(3, delay, backoff, max_delay).wait(tries)
    assert 0 <= wait <= max_delay or wait == 0


@given(st.floats(0, 1), st.integers(1, 20))
def test_jitter_spreads_by_its_fraction_and_no_more(jitter: float, tries: int) -> None:
    policy = RetryPolicy(3, SECOND, 2.0, 60 * SECOND, jitter)
    base = policy.wait(tries)
    assert base * (1 - jitter) - 1 <= policy.wait_with_jitter(tries) <= base * (1 + jitter) + 1


def test_a_declaration_becomes_a_policy_in_microseconds() -> None:
    retry = Retry(attempts=5, delay=timedelta(seconds=2), backoff=3, max_delay=60, jitter=0.5, on=OSError)
    assert retry.policy == RetryPolicy(5, 2 * SECOND, 3.0, 60 * SECOND, 0.5)
    assert retry.covers(FileNotFoundError())
    assert not retry.covers(ValueError())


def test_losses_are_a_number_of_their_own() -> None:
    assert Retry().policy.losses == RetryPolicy().losses == 5
    assert Retry(attempts=1, losses=0).policy == RetryPolicy(1, SECOND, 2.0, 3600 * SECOND, 0.1, 0)
    assert "losses=0" in repr(Retry(losses=0))


def test_the_default_retries_nothing_but_lost_attempts() -> None:
    assert not LOST_ONLY.covers(Exception())
    assert LOST_ONLY.policy.attempts == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 1.5},
        {"attempts": True},
        {"losses": -1},
        {"losses": 2**31},
        {"losses": 0.5},
        {"losses": False},
        {"losses": None},
        {"delay": -1},
        {"delay": "1"},
        {"delay": float("nan")},
        {"backoff": 0.5},
        {"backoff": "2"},
        {"max_delay": -1},
        {"jitter": 2},
        {"jitter": -0.1},
        {"on": 5},
        {"on": (ValueError, "x")},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Retry(**wrong)


class Busy(ConnectionError):
    """The other side says how long to wait."""


def test_a_function_may_say_what_is_retried() -> None:
    retry = Retry(on=lambda error: "503" in str(error))
    assert retry.covers(OSError("HTTP 503"))
    assert not retry.covers(OSError("HTTP 404"))
    assert not retry.covers(SystemExit("503"))


def test_a_function_that_fails_retries_nothing_and_leaves_a_note() -> None:
    def broken(error: Exception) -> bool:
        raise KeyError("status")

    error = OSError("away")
    assert not Retry(on=broken).covers(error)
    assert error.__notes__ == ["not retried: the function in Retry(on=…) raised KeyError('status')"]


@pytest.mark.parametrize("on", [(ConnectionError, TimeoutError), lambda error: isinstance(error, OSError)])
def test_a_group_is_retried_where_all_that_is_in_it_is(on: Any) -> None:
    retry = Retry(on=on)
    fine = [ExceptionGroup("inner", [TimeoutError(), Busy()]), ConnectionError()]
    assert retry.covers(ExceptionGroup("g", fine))
    assert not retry.covers(ExceptionGroup("g", [*fine, ValueError()]))
    assert not retry.covers(BaseExceptionGroup("g", [*fine, KeyboardInterrupt()]))
    assert not LOST_ONLY.covers(ExceptionGroup("g", fine))
    assert Retry(on=ExceptionGroup).covers(ExceptionGroup("g", [ValueError()]))


def test_an_exception_may_have_a_delay_of_its_own() -> None:
    retry = Retry(delay=1, jitter=0, delays={Busy: 30, ConnectionError: timedelta(seconds=5)})
    assert retry.wait(Busy(), 3) == 30 * SECOND
    assert retry.wait(ConnectionResetError(), 1) == 5 * SECOND
    assert retry.wait(ValueError(), 3) == 4 * SECOND
    group = ExceptionGroup("g", [ConnectionError(), ExceptionGroup("h", [Busy(), ValueError()])])
    assert retry.wait(group, 1) == 30 * SECOND
    spread = {Retry(jitter=0.5, delays={Busy: 30}).wait(Busy(), 1) for _ in range(50)}
    assert len(spread) > 1
    assert all(15 * SECOND <= wait <= 45 * SECOND for wait in spread)


@pytest.mark.parametrize("delays", [{"Busy": 1}, {Busy: -1}, [(Busy, 1)], {int: 1}])
def test_delays_that_make_no_sense_are_refused(delays: Any) -> None:
    with pytest.raises(ConfigError, match="delays="):
        Retry(delays=delays)
