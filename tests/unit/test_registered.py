"""Which limits a process has told its store about."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headgate.engine.contract import Limit
from headgate.errors import ConfigError
from headgate.limits.registered import RegisteredLimits

ONE, TWO, RATE = Limit("a", "concurrency", 1), Limit("a", "concurrency", 2), Limit("a", "rate", 1, 1_000_000)

FIRST, OTHER = replace(ONE, by_job=True), replace(TWO, by_job=True)


def arrive(limits: RegisteredLimits) -> None:
    """A step carries everything to the store."""
    with limits.carried():
        pass


def test_code_may_say_the_same_thing_twice_but_not_two_things():
    limits = RegisteredLimits()
    limits.declare([ONE])
    limits.declare([ONE])
    with pytest.raises(ConfigError, match="twice with different values: 1 and 2"):
        limits.declare([TWO])
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.declare([RATE])


def test_an_enqueue_may_not_contradict_the_code():
    limits = RegisteredLimits()
    limits.declare([ONE])
    with pytest.raises(ConfigError, match="different values: 1 and 1 with when_full='drop'"):
        limits.mention(replace(ONE, when_full="drop", by_job=True))
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.mention(replace(RATE, by_job=True))


def test_an_enqueue_may_bring_another_number_than_the_code():
    limits = RegisteredLimits()
    limits.declare([ONE])
    limits.mention(OTHER)
    assert limits.unsent() == (replace(ONE, per_key=True),), "the code's word is not lost"
    arrive(limits)
    limits.mention(OTHER)
    assert limits.unsent() == (OTHER,)
    arrive(limits)
    limits.mention(FIRST)
    assert limits.unsent() == ()


def test_enqueues_may_change_a_number_but_not_the_kind():
    limits = RegisteredLimits()
    limits.mention(FIRST)
    limits.mention(OTHER)
    assert limits.unsent() == (replace(FIRST, per_key=True),), "one number, and that there are others"
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.mention(replace(RATE, by_job=True))


def test_what_comes_with_an_enqueue_is_sent_with_each_unless_it_stands_in_code():
    limits = RegisteredLimits()
    limits.mention(FIRST)
    arrive(limits)
    limits.mention(FIRST)
    assert limits.unsent() == (FIRST,), "another process may have said something else meanwhile"
    limits.declare([ONE])
    arrive(limits)
    limits.mention(FIRST)
    assert limits.unsent() == ()


def test_a_value_that_changed_while_the_older_was_on_its_way_is_still_unsent():
    limits = RegisteredLimits()
    limits.mention(FIRST)
    with limits.carried() as on_its_way:
        assert on_its_way == (FIRST,)
        limits.mention(OTHER)
    assert limits.unsent() == (replace(FIRST, per_key=True),)


def test_another_store_hears_everything_that_stands_in_code():
    limits = RegisteredLimits()
    limits.declare([ONE])
    limits.mention(Limit("b", "concurrency", 5))
    arrive(limits)
    limits.all_unsent()
    assert limits.unsent() == (ONE,)
    limits.mention(Limit("b", "concurrency", 5))
    assert len(limits.unsent()) == 2


def test_what_the_store_refuses_is_forgotten_unless_it_stands_in_code():
    limits = RegisteredLimits()
    limits.declare([ONE])
    limits.mention(Limit("b", "concurrency", 5))
    with pytest.raises(ConfigError), limits.carried():
        raise ConfigError("b is a rate")
    assert limits.unsent() == (ONE,)
    limits.mention(Limit("b", "rate", 5, 1_000_000))


def test_what_did_not_arrive_is_carried_again():
    limits = RegisteredLimits()
    limits.mention(ONE)
    with pytest.raises(OSError), limits.carried():
        raise OSError
    assert limits.unsent() == (ONE,)


def test_a_floating_limit_shares_its_name_with_no_other_kind():
    limits = RegisteredLimits()
    limits.use_floating("a")
    with pytest.raises(ConfigError, match="as floating and as concurrency"):
        limits.declare([ONE])
    limits.declare([Limit("a", "floating", 5)])
    limits.declare([Limit("b", "concurrency", 5)])
    with pytest.raises(ConfigError, match="as concurrency and as floating"):
        limits.use_floating("b")
