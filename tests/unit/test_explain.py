"""The words for why a job is where it is."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.app.explain import explanation
from headgate.cli.times import ago
from headgate.clock import from_us
from headgate.engine.contract import Facts, Holder, LimitStatus, Override
from headgate.job import Job, JobState
from headgate.retry import RetryPolicy

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


def job(state: JobState, **changes: Any) -> Job:
    fields: dict[str, Any] = {
        "id": "j1", "task": "send", "queue": "email", "args": "{}", "tenant": "", "priority": 50, "state": state,
        "due": NOW, "enqueued_at": NOW, "uses": (), "retry": RetryPolicy(), "timeout": None, "unique": None,
        "metadata": None, "retention": None, "waiting_on": None, "attempt": 0, "tries": 0, "worker": None,
        "started_at": None, "ended_at": None, "cancel_requested": False, "error": None, "result": None,
        "progress": None, "history": (),
    }  # fmt: skip
    return Job(**fields | changes)


def limit(**changes: Any) -> LimitStatus:
    fields: dict[str, Any] = {
        "name": "customer", "key": "customer=42", "tenant": "", "kind": "concurrency", "max": 1, "declared": 1,
        "override": None, "held": 1, "waiting": 3,
    }  # fmt: skip
    return LimitStatus(**fields | changes)


def words(about: Job, **changes: Any) -> str:
    fields: dict[str, Any] = {
        "job": about, "limit": None, "holders": (), "offered": 0, "place": None, "earliest": None, "paused": False,
        "serving": 1, "knowing": 1, "now": NOW,
    }  # fmt: skip
    return str(explanation(Facts(**fields | changes)))


def test_scheduled():
    assert words(job(JobState.SCHEDULED, due=NOW + 30 * SECOND)) == (
        "Job j1 (send) is scheduled and due at 2023-11-14 22:13:50 UTC (in 30 s)."
    )
    assert "due now" in words(job(JobState.SCHEDULED))


def test_scheduled_for_a_retry():
    told = words(
        job(JobState.SCHEDULED, due=NOW + 300 * SECOND, tries=1, attempt=1, error="Traceback\nOSError: no")
    )
    assert "is to be tried again, after 1 attempt of 3" in told
    assert "(in 5 min); last error: OSError: no." in told


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"paused": True}, "the queue is paused"),
        ({"serving": 0, "knowing": 0}, "no live worker serves the queue"),
        ({"serving": 2, "knowing": 0}, "2 live workers serve the queue, but none knows the task 'send'"),
        ({"serving": 1, "knowing": 0}, "1 live worker serves the queue, but none"),
        ({"serving": 2, "knowing": 2}, "it is about to start; 2 live workers can run it"),
    ],
)
def test_ready(facts: Any, expected: str):
    told = words(job(JobState.READY), **facts)
    assert told.startswith("Job j1 (send) is ready in queue 'email': ")
    assert expected in told


def test_waiting_for_a_slot():
    holder = Holder("j0", "sync", "w1", NOW - 3 * SECOND, reserved=False)
    told = words(job(JobState.WAITING), limit=limit(), holders=(holder,), place=1)
    assert told == (
        "Job j1 (send) waits on customer=42: 1 of 1 held, by job j0 (sync), running for 3 s; it is next in line."
    )


def test_waiting_behind_many():
    holders = tuple(Holder(f"h{n}", "sync", "w1", NOW, reserved=n == 0) for n in range(5))
    told = words(job(JobState.WAITING), limit=limit(max=5, held=5, tenant="acme"), holders=holders, place=7)
    assert "customer=42 (tenant acme): 5 of 5 held" in told
    assert "h0 (sync), which keeps it while it waits for another key" in told
    assert "and 2 more; it is number 7 in line" in told


def test_waiting_on_a_closed_key_names_who_closed_it():
    closed = limit(max=0, held=0, override=Override("customer", 0, "42", by="ops", why="migration"))
    told = words(job(JobState.WAITING), limit=closed, place=1, paused=True)
    assert "it is closed (a limit of 0, set by ops: migration); it is next in line" in told
    assert "its queue 'email' is paused, too" in told


def test_waiting_for_a_rate():
    rate = limit(kind="rate", key="api", max=100, period=60 * SECOND, held=0)
    told = words(job(JobState.WAITING), limit=rate, place=2, earliest=NOW + 2 * SECOND)
    assert "its rate of 100 per 60 s is used up; a token comes at 2023-11-14 22:13:22 UTC (in 2 s)" in told
    assert "a token comes now" in words(job(JobState.WAITING), limit=rate, earliest=NOW)
    assert "never has as many tokens" in words(job(JobState.WAITING), limit=rate)
    assert "closed (a rate of 0)" in words(job(JobState.WAITING), limit=limit(kind="rate", max=0))


def test_waiting_on_a_key_whose_limit_was_lifted():
    assert "no limit any more" in words(job(JobState.WAITING), limit=limit(max=None))
    assert "no rate any more" in words(job(JobState.WAITING), limit=limit(max=None, kind="rate"))
    assert "just changed" in words(job(JobState.WAITING))


def test_running():
    running = job(JobState.RUNNING, worker="w1", started_at=NOW - 90 * SECOND, attempt=2)
    assert words(running) == "Job j1 (send) is running on worker w1 for 90 s, attempt 2."
    assert "asked to stop" in words(job(JobState.RUNNING, worker="w1", started_at=NOW, cancel_requested=True))


@pytest.mark.parametrize(
    ("suspicion", "expected"),
    [
        (
            2,
            "it was lost 2 times with its worker and may have ended it, so that a worker runs few suspects at a time",
        ),
        (
            3,
            "it was lost 3 times with its worker and may have ended it, so that it is tried alone: it starts when a",
        ),
    ],
)
def test_a_ready_suspect_learns_why_it_is_not_claimed(suspicion: int, expected: str):
    told = words(job(JobState.READY, suspicion=suspicion, lost=suspicion, attempt=suspicion))
    assert expected in told
    assert told.endswith("; 1 live worker can run it.")


def test_a_suspect_without_a_worker_hears_of_that_first():
    suspect = job(JobState.READY, suspicion=1, lost=1)
    assert "no live worker serves the queue" in words(suspect, serving=0, knowing=0)
    assert "the queue is paused" in words(suspect, paused=True)


def test_other_suspects_are_told_how_often_they_were_lost():
    running = job(JobState.RUNNING, worker="w", started_at=NOW, attempt=4, suspicion=3, lost=3)
    assert words(running).endswith("attempt 4; it was lost 3 times with its worker, and is tried alone.")
    running = job(JobState.RUNNING, worker="w", started_at=NOW, attempt=2, suspicion=1, lost=1)
    assert words(running).endswith("attempt 2; it was lost once with its worker.")
    waiting = job(JobState.WAITING, suspicion=2, lost=2)
    assert words(waiting, limit=limit(), place=1).endswith(
        "it is next in line; it was lost 2 times with its worker, and is tried beside few others of its kind."
    )


def test_ended():
    ended: dict[str, Any] = {
        "ended_at": NOW - 7200 * SECOND,
        "attempt": 3,
        "error": "Traceback…\nValueError: bad.",
    }
    assert words(job(JobState.FAILED, **ended)) == (
        "Job j1 (send) failed at 2023-11-14 20:13:20 UTC (2 h ago) after 3 attempts: ValueError: bad."
    )
    assert "was cancelled at" in words(job(JobState.CANCELLED, ended_at=NOW))
    assert "succeeded at" in words(job(JobState.SUCCEEDED, ended_at=NOW, attempt=1))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.52, "0.5 s"), (3, "3 s"), (90, "90 s"), (300, "5 min"), (3 * 3600, "3 h"), (1142 * 86_400, "1142 d")],
)
def test_lengths_of_time_read_as_in_tables(seconds: float, expected: str):
    due = NOW + round(seconds * SECOND)
    assert f"(in {expected})" in words(job(JobState.SCHEDULED, due=due))
    assert ago(from_us(due), from_us(NOW)) == f"in {expected}"


def test_a_rate_s_period_is_told_exactly():
    rate = limit(kind="rate", max=1, period=9000 * SECOND, held=0)
    assert "its rate of 1 per 9000 s is" in words(job(JobState.WAITING), limit=rate, earliest=NOW)


def test_an_error_of_several_lines_is_told_by_its_first():
    error = "ValueError: bad\nand worse\nTraceback (most recent call last):\n  …\nValueError: bad\nand worse"
    assert words(job(JobState.FAILED, error=error)).endswith(": ValueError: bad.")
    assert "last error: ValueError: bad." in words(job(JobState.SCHEDULED, tries=1, error=error))


def test_the_record_carries_the_facts_for_programs():
    holder = Holder("j0", "sync", "w1", NOW, reserved=False)
    told = explanation(Facts(job(JobState.WAITING), limit(), (holder,), 0, 4, NOW, False, 1, 1, NOW))
    assert (told.id, told.state, told.key, told.holders, told.place) == (
        "j1",
        "waiting",
        "customer=42",
        ("j0",),
        4,
    )
    assert told.earliest is not None


def test_a_waiter_of_a_key_with_room_learns_who_goes_before_it():
    limit = LimitStatus("customer", "customer=5", "", "concurrency", 1, 1, None, 0, 3)
    assert "0 of 1 held, and the room is promised to 1 job before it that can be claimed now" in words(
        job(JobState.WAITING, waiting_on="c0:customer=5"), limit=limit, offered=1, place=1
    )
