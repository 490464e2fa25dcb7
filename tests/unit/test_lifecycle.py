"""What becomes of a job when something happens to it."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import (
    DAY,
    Failed,
    ImportedJob,
    Outcome,
    Released,
    Settings,
    Snoozed,
    Stopped,
    Succeeded,
)
from headgate.engine.rules.blame import Blamed
from headgate.engine.rules.lifecycle import (
    LOST,
    Again,
    End,
    Existing,
    Taken,
    expires_at,
    lose,
    settle,
    take_import,
)
from headgate.job import ENDED, PENDING, TRANSITIONS, AttemptOutcome, JobState, NewJob, PastAttempt
from headgate.retry import RetryPolicy

S = JobState
NOW = 1000 * SECOND


class Running:
    """A running job that is due at 900 s."""

    def __init__(self, cancel_requested: bool = False, tries: int = 1, attempts: int = 3) -> None:
        self.cancel_requested = cancel_requested
        self.due = 900 * SECOND
        self.tries = tries
        self.retry = RetryPolicy(attempts, SECOND, 2.0)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Succeeded("j", 1, "1"), End(S.SUCCEEDED, "succeeded", result="1")),
        (Failed("j", 1, "boom"), End(S.FAILED, "failed", "boom")),
        (Failed("j", 1, "boom", 5), Again(NOW + 5, "failed", True, "boom")),
        (Snoozed("j", 1, 7), Again(NOW + 7, "snoozed", False)),
        (Stopped("j", 1), End(S.CANCELLED, "cancelled")),
        (Stopped("j", 1, "why"), End(S.CANCELLED, "cancelled", "why")),
        (Released("j", 1), Again(900 * SECOND, "released", False)),
    ],
)
def test_an_outcome_decides_what_follows(outcome: Outcome, verdict: End | Again) -> None:
    assert settle(Running(), outcome, NOW) == verdict


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Succeeded("j", 1), S.SUCCEEDED),
        (Failed("j", 1, "boom"), S.CANCELLED),
        (Failed("j", 1, "boom", 5), S.CANCELLED),
        (Snoozed("j", 1, 7), S.CANCELLED),
        (Stopped("j", 1), S.CANCELLED),
        (Released("j", 1), S.CANCELLED),
    ],
)
def test_a_cancel_that_was_asked_for_wins_over_all_but_success(outcome: Outcome, state: JobState) -> None:
    verdict = settle(Running(cancel_requested=True), outcome, NOW)
    assert isinstance(verdict, End)
    assert verdict.state is state


def test_a_lost_attempt_does_not_count_and_its_job_takes_its_old_place() -> None:
    verdict = lose(Running(tries=3), Blamed(1, 1, 5, fails=False), NOW)
    assert verdict == Again(900 * SECOND, "lost", False, LOST)


def test_a_job_that_is_to_blame_fails_and_the_reason_says_so() -> None:
    verdict = lose(Running(), Blamed(5, 5, 5, fails=True), NOW)
    assert isinstance(verdict, End)
    assert (verdict.state, verdict.outcome) == (S.FAILED, "lost")
    assert "lost 5 times" in (verdict.error or "")


def test_a_lost_attempt_of_a_cancelled_job_cancels_it() -> None:
    verdict = lose(Running(cancel_requested=True), Blamed(5, 5, 5, fails=True), NOW)
    assert isinstance(verdict, End)
    assert verdict.state is S.CANCELLED


@pytest.mark.parametrize(("state", "days"), [(S.SUCCEEDED, 1), (S.FAILED, 14), (S.CANCELLED, 14)])
def test_each_ended_state_is_kept_for_its_time(state: JobState, days: int) -> None:
    assert expires_at(state, None, Settings(), NOW) == NOW + days * DAY
    assert expires_at(state, 5, Settings(), NOW) == NOW + 5


# ── import ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def past(*outcomes: AttemptOutcome) -> tuple[PastAttempt, ...]:
    return tuple(
        PastAttempt(number, outcome, number * SECOND, (number + 1) * SECOND)
        for number, outcome in enumerate(outcomes, 1)
    )


def record(*outcomes: AttemptOutcome, attempts: int = 3, **fields: int) -> ImportedJob:
    enqueued_at = fields.pop("enqueued_at", None)
    retry = RetryPolicy(attempts, SECOND, 2.0)
    return ImportedJob(NewJob("j", "t", retry=retry, **fields), past(*outcomes), enqueued_at)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, NOW),
        ({"delay": 5}, NOW + 5),
        ({"enqueued_at": 7}, 7),
        ({"enqueued_at": 7, "delay": 5}, 12),
        ({"at": 99, "delay": 5, "enqueued_at": 7}, 99),
    ],
    ids=str,
)
def test_a_job_without_attempts_is_due_by_its_times(fields: dict[str, int], due: int) -> None:
    assert take_import(record(**fields), None, NOW) == Taken(S.SCHEDULED, due, 0, ())


@pytest.mark.parametrize(
    ("outcomes", "attempts", "state", "due"),
    [
        (("succeeded",), 3, S.SUCCEEDED, 2 * SECOND),
        (("failed", "cancelled"), 3, S.CANCELLED, 3 * SECOND),
        (("failed",), 1, S.FAILED, 2 * SECOND),
        (("failed", "failed", "failed"), 3, S.FAILED, 4 * SECOND),
        (("failed",), 3, S.SCHEDULED, 3 * SECOND),
        (("failed", "failed"), 3, S.SCHEDULED, 5 * SECOND),
    ],
)
def test_the_last_attempt_decides_the_state(
    outcomes: tuple[AttemptOutcome, ...], attempts: int, state: JobState, due: int
) -> None:
    taken = take_import(record(*outcomes, attempts=attempts), None, NOW)
    assert taken == Taken(state, due, len(outcomes), past(*outcomes))


@pytest.mark.parametrize("state", list(S))
def test_an_existing_job_is_taken_again_unless_it_runs_or_has_succeeded(state: JobState) -> None:
    taken = take_import(record("failed", "failed"), Existing(state, past("failed"), 0), NOW)
    if state in (S.RUNNING, S.SUCCEEDED):
        assert taken == f"the job exists and is {state}"
    else:
        assert isinstance(taken, Taken)


@pytest.mark.parametrize(
    ("stored", "given", "why"),
    [
        ((), (), "nothing in it is new"),
        (("failed",), ("failed",), "nothing in it is new"),
        (("failed",), (), "the stored attempts differ from the imported ones"),
        (("lost",), ("failed", "failed"), "the stored attempts differ from the imported ones"),
    ],
)
def test_an_existing_job_is_not_taken_again_when(
    stored: tuple[AttemptOutcome, ...], given: tuple[AttemptOutcome, ...], why: str
) -> None:
    assert take_import(record(*given), Existing(S.SCHEDULED, past(*stored), 0), NOW) == why


# ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_state_has_its_row_in_the_table_of_transitions() -> None:
    assert set(TRANSITIONS) == set(S)


def test_nothing_leaves_succeeded_and_every_other_state_can_be_left() -> None:
    assert {state for state, after in TRANSITIONS.items() if not after} == {S.SUCCEEDED}


def test_pending_running_and_ended_are_all_there_is() -> None:
    assert PENDING | ENDED | {S.RUNNING} == set(S)
    assert {state for state in S if state.ended} == ENDED
