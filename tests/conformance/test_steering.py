"""Cancel, restart, expedite, delete: in every state, with everything given back and passed on."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Failed, Succeeded, Verdict
from headgate.job import JobState
from headgate.retry import RetryPolicy
from tests.support.world import World

S = JobState


async def put(world: World, state: JobState) -> str:
    """Bring a job `x` into a state."""
    await world.limit("A", 1)
    await world.limit("K", 0)
    match state:
        case S.SCHEDULED:
            await world.enqueue("x", "A", delay=100)
        case S.WAITING:
            await world.enqueue("x", "A", "K")
        case S.CANCELLED:
            await world.enqueue("x", "A", delay=100)
            await world.cancel("x")
        case _:
            await world.enqueue("x", "A")
    if state in (S.RUNNING, S.SUCCEEDED, S.FAILED):
        assert await world.claim() == ["x"]
    if state is S.SUCCEEDED:
        await world.end("x")
    if state is S.FAILED:
        await world.fail("x")
    assert await world.state("x") is state
    return "x"


TABLE = [
    ("cancel", S.SCHEDULED, True, S.CANCELLED),
    ("cancel", S.READY, True, S.CANCELLED),
    ("cancel", S.WAITING, True, S.CANCELLED),
    ("cancel", S.RUNNING, True, S.RUNNING),
    ("cancel", S.SUCCEEDED, False, S.SUCCEEDED),
    ("cancel", S.FAILED, False, S.FAILED),
    ("cancel", S.CANCELLED, False, S.CANCELLED),
    ("restart", S.SCHEDULED, False, S.SCHEDULED),
    ("restart", S.READY, False, S.READY),
    ("restart", S.WAITING, False, S.WAITING),
    ("restart", S.RUNNING, False, S.RUNNING),
    ("restart", S.SUCCEEDED, False, S.SUCCEEDED),
    ("restart", S.FAILED, True, S.READY),
    ("restart", S.CANCELLED, True, S.READY),
    ("expedite", S.SCHEDULED, True, S.READY),
    ("expedite", S.READY, False, S.READY),
    ("expedite", S.WAITING, False, S.WAITING),
    ("expedite", S.RUNNING, False, S.RUNNING),
    ("expedite", S.SUCCEEDED, False, S.SUCCEEDED),
    ("expedite", S.FAILED, False, S.FAILED),
    ("expedite", S.CANCELLED, False, S.CANCELLED),
    ("delete", S.SCHEDULED, False, S.SCHEDULED),
    ("delete", S.READY, False, S.READY),
    ("delete", S.WAITING, False, S.WAITING),
    ("delete", S.RUNNING, False, S.RUNNING),
    ("delete", S.SUCCEEDED, True, S.SUCCEEDED),
    ("delete", S.FAILED, True, S.FAILED),
    ("delete", S.CANCELLED, True, S.CANCELLED),
]


@pytest.mark.parametrize(("verb", "state", "done", "after"), TABLE, ids=lambda value: str(value))
async def test_each_verb_does_or_refuses_each_state_and_names_it(
    world: World, verb: str, state: JobState, done: bool, after: JobState
) -> None:
    id = await put(world, state)
    before = await world.get(id)
    assert await world.steer(verb, id) == [Verdict(id, done, after)]
    if not done:
        assert await world.get(id) == before, "a refusal changes nothing"
    elif verb == "delete":
        assert await world.state(id) is None
    else:
        assert await world.state(id) is after


@pytest.mark.parametrize("verb", ["cancel", "restart", "expedite", "delete"])
async def test_an_unknown_job_has_no_state_to_refuse_with(world: World, verb: str) -> None:
    assert await world.steer(verb, "nobody") == [Verdict("nobody", False, None)]


@pytest.mark.parametrize("verb", ["cancel", "restart", "expedite", "delete"])
async def test_verdicts_stand_in_the_order_in_which_the_ids_were_given(world: World, verb: str) -> None:
    await world.fill(3)
    ids = ["j3", "nobody", "j1", "j2"]
    assert [verdict.id for verdict in await world.steer(verb, *ids)] == ids


async def test_cancelling_the_same_job_twice_in_one_call_refuses_the_second(world: World) -> None:
    await world.enqueue("j1")
    first, second = await world.cancel("j1", "j1")
    assert (first.done, second.done) == (True, False)


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_cancelling_a_waiter_sends_the_next_release_to_the_following_one(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A")
    await world.claim()
    await world.cancel("j2")
    await world.end("j1")
    assert await world.claim() == ["j3"]


async def test_cancelling_several_waiters_in_a_row_runs_the_first_live_one(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(6, "A")
    await world.claim()
    await world.cancel("j2")
    await world.cancel("j3", "j4")
    await world.end("j1")
    assert await world.claim() == ["j5"]


async def test_cancelling_an_offered_job_passes_the_offer_on(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A")
    await world.claim()
    await world.end("j1")
    assert await world.states("j2", "j3") == ["ready", "waiting"]
    await world.cancel("j2")
    assert await world.states("j2", "j3") == ["cancelled", "ready"]


async def test_cancelling_an_offered_job_of_a_rate_passes_the_token_on(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(3, "R")
    await world.claim()
    await world.later(10)
    assert await world.states("j2", "j3") == ["ready", "waiting"]
    await world.cancel("j2")
    assert await world.state("j3") is S.READY


async def test_cancelling_a_ready_newcomer_passes_its_room_on(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.cancel("j1")
    assert await world.claim() == ["j2"]


async def test_cancelling_the_last_waiter_of_a_rate_stops_its_timer(world: World) -> None:
    await world.rate("R", 1, per=10)
    await world.fill(2, "R")
    await world.claim()
    assert list((await world.snapshot()).timers) == [world.ident("R")]
    await world.cancel("j2")
    assert (await world.snapshot()).timers == {}


async def test_a_running_job_learns_of_its_cancel_by_heartbeat_and_by_exchange(world: World) -> None:
    await world.fill(2)
    await world.claim()
    assert (await world.engine.heartbeat("w", now=world.now)).cancelling == ()
    await world.cancel("j2")
    assert (await world.engine.heartbeat("w", now=world.now)).cancelling == ("j2",)
    assert (await world.exchange()).cancelling == ("j2",)
    assert (await world.get("j2")).cancel_requested
    await world.stop("j2")
    assert (await world.exchange()).cancelling == ()


async def test_another_worker_does_not_hear_of_the_cancel(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.cancel("j1")
    assert (await world.exchange(worker="other")).cancelling == ()


async def test_a_cancelled_running_job_keeps_its_slots_until_it_has_stopped(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    await world.cancel("j1")
    assert await world.claim() == []
    await world.stop("j1")
    assert await world.claim() == ["j2"]


@pytest.mark.parametrize("how", ["fails", "fails for good", "snoozes", "is released", "stops", "dies"])
async def test_a_cancelled_running_job_ends_cancelled_however_its_attempt_ends(
    world: World, how: str
) -> None:
    await world.limit("A", 1)
    await world.worker("w", lease=15)
    await world.enqueue("j1", "A")
    await world.claim()
    await world.cancel("j1")
    match how:
        case "fails":
            await world.fail("j1", retry=1)
        case "fails for good":
            await world.fail("j1")
        case "snoozes":
            await world.snooze("j1", 1)
        case "is released":
            await world.release("j1")
        case "stops":
            await world.stop("j1")
        case _:
            await world.later(16)
    assert await world.state("j1") is S.CANCELLED
    await world.later(100)
    assert await world.state("j1") is S.CANCELLED, "no further attempt"
    await world.nothing_left()


async def test_a_cancelled_running_job_that_succeeds_all_the_same_has_succeeded(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.cancel("j1")
    await world.end("j1")
    assert await world.state("j1") is S.SUCCEEDED


async def test_an_attempt_may_end_cancelled_of_its_own_accord(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A")
    await world.claim()
    await world.stop("j1")
    assert await world.state("j1") is S.CANCELLED
    await world.nothing_left()


# ── restart ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_restarted_job_waits_when_its_key_is_full(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    await world.fail("j1")
    assert await world.claim() == ["j2"]
    assert await world.restart("j1") == [Verdict("j1", True, S.WAITING)]
    assert await world.claim() == []
    await world.end("j2")
    assert await world.claim() == ["j1"]


async def test_attempt_numbers_go_on_rising_over_restarts_while_tries_begin_anew(world: World) -> None:
    await world.enqueue("j1")
    for number in range(1, 4):
        answer = await world.exchange(want=1)
        assert [(attempt.number, attempt.tries) for attempt in answer.attempts] == [(number, 1)]
        world.move(1)
        await world.fail("j1")
        await world.restart("j1")
    history = (await world.get("j1")).history
    assert [(past.number, past.outcome) for past in history] == [(1, "failed"), (2, "failed"), (3, "failed")]


async def test_a_restarted_job_stands_in_line_by_its_new_due_time(world: World) -> None:
    await world.enqueue("old")
    await world.claim()
    await world.fail("old")
    world.move(1)
    await world.enqueue("young")
    world.move(1)
    await world.restart("old")
    assert (await world.get("old")).due == world.now
    assert await world.claim() == ["young", "old"]


async def test_a_restarted_job_forgets_error_end_and_cancel(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.cancel("j1")
    await world.fail("j1", retry=1, error="boom")
    assert (await world.get("j1")).error == "boom"
    await world.restart("j1")
    job = await world.get("j1")
    assert (job.error, job.ended_at, job.cancel_requested, job.state) == (None, None, False, S.READY)
    assert await world.claim() == ["j1"]
    await world.fail("j1", retry=1)
    assert await world.state("j1") is S.SCHEDULED, "the old cancel is forgotten"


async def test_a_restarted_job_gets_its_retries_back(world: World) -> None:
    await world.enqueue("j1", retry=RetryPolicy(attempts=1, delay=SECOND))
    await world.claim()
    await world.fail("j1")
    assert await world.state("j1") is S.FAILED
    await world.restart("j1")
    assert (await world.get("j1")).tries == 0


# ── expedite ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_expedited_job_runs_now_as_the_same_attempt(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.fail("j1", retry=1000)
    await world.expedite("j1")
    answer = await world.exchange(want=1)
    assert [(attempt.number, attempt.tries) for attempt in answer.attempts] == [(2, 2)]


async def test_an_expedited_job_on_a_full_key_starts_at_the_next_release(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("holder", "A")
    await world.claim()
    await world.enqueue("delayed", "A", delay=1000)
    assert await world.expedite("delayed") == [Verdict("delayed", True, S.WAITING)]
    assert await world.claim() == []
    await world.end("holder")
    assert await world.claim() == ["delayed"]


# ── what an attempt leaves behind ────────────────────────────────────────────────────────────────────────────────────


async def test_a_failure_without_retry_ends_the_job_with_its_error(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    world.move(3)
    await world.fail("j1", error="no such customer")
    job = await world.get("j1")
    assert (job.state, job.error, job.ended_at) == (S.FAILED, "no such customer", world.now)
    assert [(past.number, past.outcome, past.error) for past in job.history] == [
        (1, "failed", "no such customer")
    ]


async def test_a_success_keeps_its_result_and_its_times(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    started = world.now
    world.move(2)
    await world.exchange(Succeeded("j1", 1, '{"answer":42}'))
    job = await world.get("j1")
    assert (job.state, job.result, job.started_at, job.ended_at) == (
        S.SUCCEEDED,
        '{"answer":42}',
        started,
        world.now,
    )
    (past,) = job.history
    assert (past.worker, past.started_at, past.ended_at) == ("w", started, world.now)


async def test_a_retry_is_scheduled_after_its_delay_and_counts(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.exchange(Failed("j1", 1, "boom", 30 * SECOND))
    job = await world.get("j1")
    assert (job.state, job.due, job.tries, job.attempt) == (S.SCHEDULED, world.now + 30 * SECOND, 1, 1)
    assert job.worker is None
    await world.later(29)
    assert await world.claim() == []
    await world.later(1)
    assert await world.claim() == ["j1"]


async def test_a_retry_without_delay_is_ready_at_once(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.fail("j1", retry=0)
    assert await world.claim() == ["j1"]


async def test_a_snooze_does_not_count(world: World) -> None:
    await world.enqueue("j1")
    await world.claim()
    await world.snooze("j1", 10)
    job = await world.get("j1")
    assert (job.state, job.tries, job.attempt) == (S.SCHEDULED, 0, 1)
    await world.later(10)
    answer = await world.exchange(want=1)
    assert [(attempt.number, attempt.tries) for attempt in answer.attempts] == [(2, 1)]


async def test_a_released_attempt_comes_back_at_once_uncounted_and_to_its_old_place(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A")
    await world.claim()
    world.move(1)
    await world.enqueue("second", "A")
    await world.release("first")
    job = await world.get("first")
    assert (job.tries, job.attempt) == (0, 1)
    assert await world.claim() == ["first"]


@pytest.mark.parametrize("retry", [0.0, 5.0])
async def test_a_retry_gives_its_slot_to_those_who_waited_longer(world: World, retry: float) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await world.claim()
    world.move(1)
    await world.fail("j1", retry=retry)
    assert await world.claim() == ["j2"]
