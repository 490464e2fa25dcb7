"""Which limits a process has told its store about."""

from __future__ import annotations

import pytest

from headgate.declared import DeclaredLimits
from headgate.engine.contract import Limit
from headgate.errors import ConfigError

ONE, TWO, RATE = Limit("a", "concurrency", 1), Limit("a", "concurrency", 2), Limit("a", "rate", 1, 1_000_000)


def test_code_may_say_the_same_thing_twice_but_not_two_things():
    limits = DeclaredLimits()
    limits.declare([ONE])
    limits.declare([ONE])
    with pytest.raises(ConfigError, match="twice with different values: 1 and 2"):
        limits.declare([TWO])
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.declare([RATE])


def test_an_enqueue_may_not_contradict_the_code():
    limits = DeclaredLimits()
    limits.declare([ONE])
    with pytest.raises(ConfigError, match="different values"):
        limits.mention(TWO)
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.mention(RATE)


def test_enqueues_may_change_a_number_but_not_the_kind():
    limits = DeclaredLimits()
    limits.mention(ONE)
    limits.mention(TWO)
    assert limits.unsent() == (TWO,)
    with pytest.raises(ConfigError, match="as concurrency and as rate"):
        limits.mention(RATE)


def test_what_comes_with_an_enqueue_is_sent_with_each_unless_it_stands_in_code():
    limits = DeclaredLimits()
    limits.mention(ONE)
    limits.sent(limits.unsent())
    limits.mention(ONE)
    assert limits.unsent() == (ONE,), "another process may have said something else meanwhile"
    limits.declare([ONE])
    limits.sent(limits.unsent())
    limits.mention(ONE)
    assert limits.unsent() == ()


def test_a_value_that_changed_while_the_older_was_on_its_way_is_still_unsent():
    limits = DeclaredLimits()
    limits.mention(ONE)
    on_its_way = limits.unsent()
    limits.mention(TWO)
    limits.sent(on_its_way)
    assert limits.unsent() == (TWO,)


def test_another_store_hears_everything_that_stands_in_code():
    limits = DeclaredLimits()
    limits.declare([ONE])
    limits.mention(Limit("b", "concurrency", 5))
    limits.sent(limits.unsent())
    limits.all_unsent()
    assert limits.unsent() == (ONE,)
    limits.mention(Limit("b", "concurrency", 5))
    assert len(limits.unsent()) == 2
