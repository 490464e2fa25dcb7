"""Import and re-import: jobs with their history, through the normal admission."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Filter, ImportedJob, ImportResult, Limit
from headgate.job import AttemptOutcome, JobState, PastAttempt
from headgate.keys import Key, Use
from headgate.retry import RetryPolicy
from tests.support.world import START, World

S = JobState


def past(*outcomes: AttemptOutcome, first: int = START - 1000 * SECOND) -> tuple[PastAttempt, ...]:
    """Attempts of one second each, ten seconds apart."""
    return tuple(
        PastAttempt(number, outcome, begin, begin + SECOND, "elsewhere", f"error {number}")
        for number, outcome in enumerate(outcomes, 1)
        if (begin := first + number * 10 * SECOND)
    )


def record(world: World, id: str, *needs: str, attempts: tuple[PastAttempt, ...] = (), **fields: Any):
    """A record to import."""
    enqueued_at = fields.pop("enqueued_at", None)
    return ImportedJob(world.job(id, *needs, **fields), attempts, enqueued_at)


async def test_a_job_without_attempts_arrives_like_an_enqueued_one(world: World) -> None:
    assert await world.take_over(record(world, "x")) == [ImportResult("x", S.READY)]
    assert await world.claim() == ["x"]


async def test_a_job_that_is_not_due_is_scheduled(world: World) -> None:
    assert await world.take_over(record(world, "x", delay=50)) == [ImportResult("x", S.SCHEDULED)]
    assert (await world.get("x")).due == world.at(50)


async def test_the_original_enqueue_time_is_kept_and_decides_the_place_in_line(world: World) -> None:
    await world.enqueue("young")
    await world.take_over(record(world, "old", enqueued_at=world.at(-500)))
    assert (await world.get("old")).enqueued_at == world.at(-500)
    assert await world.claim() == ["old", "young"]


@pytest.mark.parametrize("last", ["succeeded", "cancelled"])
@pytest.mark.parametrize("before", [0, 1, 3])
async def test_a_job_whose_last_attempt_ended_it_keeps_that_state(
    world: World, last: AttemptOutcome, before: int
) -> None:
    earlier: list[AttemptOutcome] = ["failed"] * before
    attempts = past(*earlier, last)
    assert await world.take_over(record(world, "x", attempts=attempts)) == [ImportResult("x", S(last))]
    job = await world.get("x")
    assert job.history == attempts
    assert (job.attempt, job.ended_at) == (before + 1, attempts[-1].ended_at)


async def test_a_job_whose_retries_are_used_up_has_failed(world: World) -> None:
    attempts = past("failed", "failed")
    policy = RetryPolicy(attempts=2, delay=SECOND)
    assert await world.take_over(record(world, "x", attempts=attempts, retry=policy)) == [
        ImportResult("x", S.FAILED)
    ]
    assert (await world.get("x")).error == "error 2"


async def test_a_failed_attempt_with_retries_left_is_followed_by_the_next_after_its_back_off(
    world: World,
) -> None:
    attempts = past("failed", first=START - 11 * SECOND)
    policy = RetryPolicy(attempts=3, delay=20 * SECOND)
    await world.take_over(record(world, "x", attempts=attempts, retry=policy))
    job = await world.get("x")
    assert (job.state, job.due) == (S.SCHEDULED, attempts[0].ended_at + 20 * SECOND)
    await world.later(20)
    answer = await world.exchange(want=1)
    assert [(attempt.number, attempt.tries) for attempt in answer.attempts] == [(2, 2)]


async def test_a_back_off_that_is_over_makes_the_job_due_at_once(world: World) -> None:
    assert await world.take_over(record(world, "x", attempts=past("failed"))) == [ImportResult("x", S.READY)]


async def test_an_imported_job_obeys_limits(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    assert await world.take_over(record(world, "x", "A", attempts=past("failed"))) == [
        ImportResult("x", S.WAITING)
    ]
    assert await world.claim() == []
    await world.end("holder")
    assert await world.claim() == ["x"]


async def test_imported_ended_jobs_hold_nothing(world: World) -> None:
    await world.limit("A", 1)
    for last in ("succeeded", "cancelled", "failed"):
        await world.take_over(
            record(world, last, "A", attempts=past(last), retry=RetryPolicy(attempts=1))  # type: ignore[arg-type]
        )
    await world.nothing_left()
    await world.enqueue("x", "A")
    assert await world.claim() == ["x"]


async def test_limits_can_be_declared_in_the_step_that_imports(world: World) -> None:
    record_ = record(world, "x", "A")
    assert (await world.take_over(record_, limits=[Limit("A", "concurrency", 0)]))[0].state is S.WAITING


@pytest.mark.parametrize(
    ("attempts", "why"),
    [
        ((PastAttempt(2, "failed", 1, 2),), "numbered"),
        ((PastAttempt(1, "failed", 1, 2), PastAttempt(1, "failed", 3, 4)), "numbered"),
        (past("succeeded", "failed"), "only the last"),
        (past("cancelled", "succeeded"), "only the last"),
        (past("lost"), "lost"),
        ((PastAttempt(1, "failed", 5, 4),), "ends before it starts"),
    ],
)
async def test_a_history_that_cannot_be_is_refused(
    world: World, attempts: tuple[PastAttempt, ...], why: str
) -> None:
    (result,) = await world.take_over(record(world, "x", attempts=attempts))
    assert result.state is None
    assert result.refused is not None
    assert why in result.refused
    assert await world.state("x") is None


async def test_one_bad_record_does_not_fail_its_neighbours(world: World) -> None:
    undeclared = ImportedJob(
        type(world.job("u"))(id="undeclared", task="t", uses=(Use(Key("nothing-here").ident),))
    )
    results = await world.take_over(
        record(world, "good1"),
        record(world, "bad", attempts=past("succeeded", "failed")),
        undeclared,
        record(world, "good2"),
        record(world, "good1"),
    )
    assert [(result.id, result.refused is None) for result in results] == [
        ("good1", True),
        ("bad", False),
        ("undeclared", False),
        ("good2", True),
        ("good1", False),
    ]
    assert sorted(await world.claim()) == ["good1", "good2"]


# ── again ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [S.RUNNING, S.SUCCEEDED])
async def test_a_running_or_succeeded_job_is_not_imported_again(world: World, state: JobState) -> None:
    await world.enqueue("x")
    await world.claim()
    if state is S.SUCCEEDED:
        await world.end("x")
    before = await world.get("x")
    (result,) = await world.take_over(record(world, "x", attempts=past("failed")))
    assert (result.state, result.refused) == (state, f"the job exists and is {state}")
    assert await world.get("x") == before


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (past("failed", "failed"), past("failed")),
        (past("failed"), past("cancelled")),
        (past("failed"), past("failed", "failed", first=START - 999 * SECOND)),
    ],
    ids=["fewer", "other outcome", "other times"],
)
async def test_attempts_that_differ_from_the_stored_ones_are_refused(
    world: World, stored: tuple[PastAttempt, ...], given: tuple[PastAttempt, ...]
) -> None:
    await world.take_over(record(world, "x", attempts=stored))
    before = await world.get("x")
    (result,) = await world.take_over(record(world, "x", attempts=given))
    assert result.refused is not None
    assert "differ" in result.refused
    assert await world.get("x") == before


@pytest.mark.parametrize("attempts", [(), past("failed"), past("failed", "failed")])
async def test_a_record_with_nothing_new_is_refused(world: World, attempts: tuple[PastAttempt, ...]) -> None:
    await world.take_over(record(world, "x", attempts=attempts))
    before = await world.get("x")
    (result,) = await world.take_over(record(world, "x", attempts=attempts))
    assert (result.state, result.refused) == (before.state, "nothing in it is new")
    assert await world.get("x") == before


async def test_new_attempts_and_the_retry_policy_are_taken_while_the_rest_is_kept(world: World) -> None:
    await world.limit("A", 1)
    await world.take_over(record(world, "x", "A", attempts=past("failed"), args='"old"', priority=7))
    before = await world.get("x")
    policy = RetryPolicy(attempts=9, delay=3600 * SECOND, backoff=1)
    again = record(world, "x", attempts=past("failed", "failed"), args='"new"', priority=1, retry=policy)
    assert await world.take_over(again) == [ImportResult("x", S.SCHEDULED)]
    job = await world.get("x")
    assert (job.args, job.priority, job.uses) == (before.args, before.priority, before.uses)
    assert (job.retry, job.attempt, job.tries) == (policy, 2, 2)
    assert job.history == past("failed", "failed")


@pytest.mark.parametrize("last", ["succeeded", "cancelled", "failed"])
async def test_a_pending_job_imported_as_ended_gives_up_its_place(world: World, last: AttemptOutcome) -> None:
    await world.limit("A", 1)
    await world.take_over(record(world, "x", "A"))
    await world.enqueue("next", "A")
    policy = RetryPolicy(attempts=1)
    await world.take_over(record(world, "x", "A", attempts=past(last), retry=policy))
    assert await world.state("x") is S(last)
    assert await world.claim() == ["next"]


async def test_a_waiting_job_imported_again_stands_in_line_once_and_in_its_order(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.take_over(record(world, "x", "A", enqueued_at=world.at(-5000)))
    await world.enqueue("y", "A")
    await world.take_over(record(world, "x", "A", attempts=past("failed")))
    assert await world.engine.count(Filter(waiting_on="A")) == 2
    await world.end("holder")
    assert await world.run_all() == ["x", "y"]


async def test_a_waiting_job_imported_again_as_ended_is_never_granted_its_old_place(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A")
    await world.claim()
    await world.take_over(record(world, "j2", "A", attempts=past("cancelled")))
    await world.end("j1")
    assert await world.claim() == ["j3"]


@pytest.mark.parametrize("state", [S.FAILED, S.CANCELLED])
async def test_an_ended_job_with_new_attempts_comes_back_by_its_policy(world: World, state: JobState) -> None:
    last = "failed" if state is S.FAILED else "cancelled"
    stored = past(last)
    await world.take_over(record(world, "x", attempts=stored, retry=RetryPolicy(attempts=1)))
    assert await world.state("x") is state
    if state is S.CANCELLED:
        return
    again = record(world, "x", attempts=past("failed", "failed"), retry=RetryPolicy(attempts=5))
    assert await world.take_over(again) == [ImportResult("x", S.READY)]
    answer = await world.exchange(want=1)
    assert [attempt.number for attempt in answer.attempts] == [3]


async def test_an_imported_job_respects_a_unique_key_in_use(world: World) -> None:
    await world.enqueue("x", unique="u")
    (result,) = await world.take_over(record(world, "y", unique="u"))
    assert result.refused is not None
    assert "'x'" in result.refused
    assert await world.state("y") is None
    for id, attempts in (("z1", past("succeeded")), ("z2", past("failed", "failed", "succeeded"))):
        (result,) = await world.take_over(record(world, id, unique="u", attempts=attempts))
        assert result == ImportResult(id, S.SUCCEEDED), "an ended one is in the way of no other"
    (again,) = await world.enqueue_all(world.job("again", unique="u"))
    assert (again.id, again.created) == ("x", False)


async def test_a_reservation_is_given_up_by_an_import(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("x", "A")
    assert await world.state("x") is S.READY
    await world.enqueue("y", "A")
    await world.take_over(record(world, "x", attempts=past("failed"), retry=RetryPolicy(delay=10**13)))
    assert await world.state("x") is S.SCHEDULED
    assert await world.claim() == ["y"]
