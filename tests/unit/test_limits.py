"""Limits as users declare them: what is accepted, what is refused, and how clearly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import ConcurrencyLimit, FloatingLimit, RateLimit
from headgate.errors import ConfigError
from headgate.limits import FloatingRule


def test_the_first_argument_is_the_number_or_parameter_names():
    assert ConcurrencyLimit(3).max_concurrent == 3
    assert ConcurrencyLimit(3).params == ()
    assert ConcurrencyLimit("a", max_concurrent=3).params == ("a",)
    assert ConcurrencyLimit("a", "b", max_concurrent=3).params == ("a", "b")
    assert ConcurrencyLimit(["a", "b"], max_concurrent=3).params == ("a", "b")
    assert RateLimit("a", limit=5, per=1).limit == 5
    assert FloatingLimit("llm", "account").params == ("account",)
    assert FloatingLimit("llm").scope == "llm"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConcurrencyLimit(), "needs its number"),
        (lambda: ConcurrencyLimit("a"), "needs its number"),
        (lambda: ConcurrencyLimit(-1), "from 0 .closed."),
        (lambda: ConcurrencyLimit(True), "whole number, not True"),
        (lambda: ConcurrencyLimit(1.5), "whole number, not 1.5"),  # pyright: ignore[reportArgumentType]
        (lambda: ConcurrencyLimit(2**31), "from 0"),
        (lambda: ConcurrencyLimit(1, max_concurrent=2), "number once"),
        (lambda: ConcurrencyLimit(1, "a"), "number once"),
        (lambda: ConcurrencyLimit("a.b", max_concurrent=1), "template goes into key="),
        (lambda: ConcurrencyLimit("a", max_concurrent=1, key="{b}"), "exclude each other"),
        (lambda: ConcurrencyLimit(1, scope=""), "non-empty"),
        (lambda: ConcurrencyLimit(1, scope="a=b"), "contains '='"),
        (lambda: ConcurrencyLimit(1, scope="x" * 257), "257 bytes"),
        (lambda: RateLimit(0, per=0), "longer than nothing"),
        (lambda: RateLimit(5, per=0), "longer than nothing"),
        (lambda: RateLimit(5, per=-1), "seconds >= 0"),
        (lambda: RateLimit(-5, per=1), "from 0"),
        (lambda: RateLimit(True, per=1), "whole number"),
        (lambda: RateLimit(1_000_001, per=1), "more than one start per microsecond"),
        (lambda: RateLimit(5, per=1, burst=0), "never start anything"),
        (lambda: RateLimit(5, per=1, burst=3, algorithm="leaky"), "only token_bucket has a burst"),
        (lambda: RateLimit(5, per=1, burst=3, algorithm="sliding_window"), "only token_bucket"),
        (lambda: RateLimit(5, per=1, algorithm="magic"), "token_bucket, leaky, sliding_window"),  # pyright: ignore[reportArgumentType]
        (lambda: RateLimit(5, per=1, cost=6), "cost 6 of a RateLimit is above its burst of 5"),
        (lambda: RateLimit(5, per=1, burst=2, cost=3), "above its burst of 2"),
        (lambda: RateLimit(5, per=1, algorithm="leaky", cost=2), "above its burst of 1"),
        (lambda: RateLimit(5, per=1, cost=-1), "whole number from 0"),
        (lambda: RateLimit(5, per=1, cost=True), "whole number from 0"),
        (lambda: FloatingLimit(""), "non-empty"),
        (lambda: FloatingLimit("llm", "not a name"), "not a parameter name"),
        (lambda: FloatingRule("llm", print, -1, 1), "from 0"),
        (lambda: FloatingRule("llm", print, 1, 999_999), "at least 1 second"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(make: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_rate_of_one_per_microsecond_is_the_fastest():
    assert RateLimit(1_000_000, per=1).limit == 1_000_000


def test_zero_closes_a_limit():
    assert ConcurrencyLimit(0).max_concurrent == 0
    assert RateLimit(0, per=60).limit == 0


def test_periods_may_be_timedeltas():
    assert RateLimit(5, per=timedelta(minutes=1)).period == 60_000_000


def test_a_limit_shows_what_it_says():
    assert repr(ConcurrencyLimit("a", max_concurrent=1)) == "ConcurrencyLimit('a', max_concurrent=1)"
    assert repr(RateLimit(5, per=60, scope="x")) == "RateLimit(limit=5, per=60.0, scope='x')"
    assert repr(FloatingLimit("llm", shared=True)) == "FloatingLimit(scope='llm', shared=True)"
