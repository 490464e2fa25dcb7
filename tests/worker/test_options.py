from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from headgate.errors import ConfigError
from headgate.job import INTERNAL_QUEUE
from headgate.worker.options import MOST_THREADS, options
from headgate.worker.queues import Queues


def test_a_list_of_queues_is_served_strictly_in_its_order():
    queues = Queues(["b", "a", "b"])
    assert queues.order() == queues.served == ("b", "a")


def test_without_queues_all_are_served():
    assert Queues(None).order() is None
    assert Queues(None, internal=True).served is None


def test_the_internal_queue_comes_first_when_queues_are_named():
    assert Queues(["a"], internal=True).order() == (INTERNAL_QUEUE, "a")
    assert Queues({"a": 1}, internal=True).order() == (INTERNAL_QUEUE, "a")


def test_weights_draw_an_order_in_proportion():
    queues = Queues({"often": 9, "seldom": 1})
    orders = Counter(queues.order() for _ in range(4000))
    assert set(orders) == {("often", "seldom"), ("seldom", "often")}
    assert 0.85 < orders["often", "seldom"] / 4000 < 0.95


@pytest.mark.parametrize("queues", ["mail", [], [""], {}, {"a": 0}, {"a": -1}, {"a": "x"}, {"a": True}, [1]])
def test_senseless_queues_are_refused(queues):
    with pytest.raises(ConfigError):
        Queues(queues)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 2.5},
        {"threads": 0},
        {"lease": 0},
        {"lease": "long"},
        {"grace": -1},
        {"name": ""},
        {"name": "x" * 300},
    ],
)
def test_senseless_options_are_refused_by_name(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        options(**wrong)


def test_durations_may_be_timedeltas_and_threads_follow_concurrency():
    chosen = options(lease=timedelta(seconds=30), concurrency=1000)
    assert chosen.lease == 30_000_000
    assert chosen.threads == MOST_THREADS
    assert options(concurrency=7).threads == 7
