"""Ids: unique, rising, time-ordered, not shared with a forked child."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import pytest

from headgate import ids
from headgate.ids import new_id


def test_ids_rise_within_a_process():
    made = [new_id() for _ in range(100_000)]
    assert made == sorted(set(made))


def test_ids_rise_across_the_wrap_of_the_counter(monkeypatch: pytest.MonkeyPatch):
    numbers = iter(range(0xFFFFF - 50, 0xFFFFF + 50))
    monkeypatch.setattr(ids, "_count", numbers.__next__)
    made = [new_id() for _ in range(100)]
    assert made == sorted(set(made))


def test_ids_rise_even_if_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch):
    before = new_id()
    monkeypatch.setattr(ids, "time_ns", lambda: 0)
    assert new_id() > before


def test_an_id_is_32_hex_digits_that_begin_with_the_time():
    id = new_id()
    assert len(id) == 32
    assert abs(int(id[:13], 16) / 1e6 - time.time()) < 60


def test_threads_never_share_an_id():
    made: list[str] = []

    def work() -> None:
        made.extend([new_id() for _ in range(10_000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 40_000


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_draws_its_own_random_part():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(new_id()))
    child.start()
    child.join()
    assert queue.get()[-14:] != new_id()[-14:]
