"""The audit finds each broken rule in a snapshot and names job and key; a snapshot that obeys has no problems."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.engine.contract import JobView, Snapshot
from headgate.engine.rules.admission import OFFER_MOST
from headgate.engine.rules.audit import audit
from headgate.job import JobState
from headgate.keys import Key, Use

A, B, C = Key("A").ident, Key("B").ident, Key("C").ident
R = Key("R", rate=True).ident
S = JobState


def view(id: str, state: JobState, *uses: str, **fields: Any) -> JobView:
    """A job that obeys, unless a field says otherwise."""
    running = state is S.RUNNING
    values: dict[str, Any] = {
        "queue": "default",
        "task": "t",
        "order": (50, 1),
        "due": 0,
        "waiting_on": None,
        "offered_by": None,
        "refusals": 0 if state is S.WAITING else None,
        "worker": "w" if running else None,
        "attempt": int(running),
        "tries": int(running),
        "set_aside": False,
        **fields,
    }
    return JobView(id=id, state=state, uses=tuple(map(_use, uses)), **values)


def _use(use: str | Use) -> Use:
    return use if isinstance(use, Use) else Use(use)


def snapshot(*jobs: JobView, **fields: Any) -> Snapshot:
    """A store at rest at time 100 with one worker."""
    values: dict[str, Any] = {
        "holders": {},
        "free": {},
        "timers": {},
        "workers": frozenset({"w"}),
        "now": 100,
    }
    return Snapshot(jobs=jobs, **{**values, **fields})


def only(shot: Snapshot) -> str:
    """The one problem."""
    (problem,) = audit(shot)
    return problem


def test_an_empty_store_has_no_problems() -> None:
    assert audit(snapshot()) == []


def test_a_store_that_obeys_has_no_problems() -> None:
    jobs = [
        view("scheduled", S.SCHEDULED, A),
        view("ready", S.READY, B, offered_by=B),
        view("aside", S.READY, B, set_aside=True),
        view("running", S.RUNNING, A, R),
        view("waiting", S.WAITING, A, waiting_on=A),
        view("reserving", S.WAITING, B, C, waiting_on=C),
        view("rated", S.WAITING, R, waiting_on=R),
    ]
    holders = {A: {"running": False}, B: {"reserving": True}}
    free = {A: 0, B: 1, C: 0, R: 0}
    assert audit(snapshot(*jobs, holders=holders, free=free, timers={R: 150}, most={R: 1})) == []


# ── holders ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_holder_that_nobody_knows_is_a_problem() -> None:
    assert only(snapshot(holders={A: {"ghost": False}}, free={A: 0})) == (
        "'A' is held by job 'ghost', which is unknown or ended"
    )


@pytest.mark.parametrize("state", [S.SCHEDULED, S.READY])
def test_a_slot_of_a_job_that_does_not_run_is_a_problem(state: JobState) -> None:
    job = view("j", state, A)
    assert only(snapshot(job, holders={A: {"j": False}}, free={A: 0})) == (
        f"job 'j' holds a slot of 'A' although it is {state}"
    )


def test_a_slot_of_a_key_that_the_job_does_not_use_is_a_problem() -> None:
    shot = snapshot(view("j", S.RUNNING), holders={A: {"j": False}}, free={A: 0})
    assert only(shot) == "job 'j' holds 'A', which it does not use"


def test_a_slot_of_a_cap_that_was_lifted_since_is_no_problem() -> None:
    cap = Key("task:t").ident
    assert audit(snapshot(view("j", S.RUNNING), holders={cap: {"j": False}}, free={cap: None})) == []


def test_a_rate_that_is_held_is_a_problem() -> None:
    shot = snapshot(view("j", S.RUNNING, R), holders={R: {"j": False}}, free={R: 0})
    assert "rates are spent, never held" in only(shot)


def test_a_key_of_a_tenant_is_named_with_it() -> None:
    key = Key("A", "x", "acme").ident
    assert "'A=x' of tenant 'acme'" in only(snapshot(holders={key: {"ghost": False}}))


@pytest.mark.parametrize("state", [S.SCHEDULED, S.RUNNING])
def test_a_reservation_of_a_job_that_neither_waits_nor_was_offered_is_a_problem(state: JobState) -> None:
    job = view("j", state, A)
    assert only(snapshot(job, holders={A: {"j": True}}, free={A: 0})) == (
        f"job 'j' reserves 'A' although it is {state}"
    )


def test_a_reservation_of_a_ready_job_that_nothing_offered_is_a_problem() -> None:
    shot = snapshot(view("j", S.READY, A), holders={A: {"j": True}}, free={A: 0})
    assert "neither waits for a key nor was offered one" in only(shot)


def test_a_reservation_of_an_offered_job_is_no_problem() -> None:
    shot = snapshot(view("j", S.READY, A, B, offered_by=B), holders={A: {"j": True}}, free={A: 0, B: 1})
    assert audit(shot) == []


def test_a_reservation_for_a_rate_wait_is_a_problem() -> None:
    job = view("j", S.WAITING, A, R, waiting_on=R)
    shot = snapshot(job, holders={A: {"j": True}}, free={A: 0, R: 0}, timers={R: 200})
    assert only(shot) == "job 'j' reserves 'A' while it waits for the rate 'R'"


@pytest.mark.parametrize("key", [B, C])
def test_a_reservation_that_does_not_come_before_the_refusing_key_is_a_problem(key: str) -> None:
    job = view("j", S.WAITING, A, B, C, waiting_on=B)
    shot = snapshot(job, holders={key: {"j": True}}, free={B: 0, C: 0})
    assert "does not come before 'B'" in only(shot)


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_running_job_without_its_slot_is_a_problem() -> None:
    assert only(snapshot(view("j", S.RUNNING, A))) == "job 'j' runs without a slot of 'A'"


def test_a_running_job_without_a_slot_of_its_tasks_cap_is_a_problem() -> None:
    cap = Key("task:t").ident
    assert only(snapshot(view("j", S.RUNNING, cap))) == "job 'j' runs without a slot of 'task:t'"


def test_a_running_job_of_an_unknown_worker_is_a_problem() -> None:
    shot = snapshot(view("j", S.RUNNING, worker="gone"))
    assert only(shot) == "job 'j' runs on worker 'gone', which is not registered"


def test_a_running_job_without_a_worker_is_a_problem() -> None:
    assert "runs on worker None" in only(snapshot(view("j", S.RUNNING, worker=None)))


def test_a_running_job_without_an_attempt_is_a_problem() -> None:
    assert "runs without a counted attempt" in only(snapshot(view("j", S.RUNNING, tries=0)))


def test_more_counted_than_made_attempts_are_a_problem() -> None:
    assert only(snapshot(view("j", S.READY, tries=2, attempt=1))) == "job 'j' has 2 counted of 1 attempts"


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_there_twice_is_a_problem() -> None:
    assert only(snapshot(view("j", S.READY), view("j", S.READY))) == "job 'j' is there 2 times"


def test_an_ended_job_among_the_unfinished_is_a_problem() -> None:
    assert "succeeded but still among the unfinished" in only(snapshot(view("j", S.SUCCEEDED)))


def test_a_pending_job_with_a_worker_is_a_problem() -> None:
    assert only(snapshot(view("j", S.READY, worker="w"))) == "job 'j' is ready, but belongs to worker 'w'"


def test_a_waiting_job_without_a_key_is_a_problem() -> None:
    assert only(snapshot(view("j", S.WAITING, A))) == "job 'j' is waiting, but on no key"


def test_a_job_that_waits_on_a_key_it_does_not_use_is_a_problem() -> None:
    shot = snapshot(view("j", S.WAITING, A, waiting_on=B), free={B: 0})
    assert only(shot) == "job 'j' waits on 'B', which it does not use"


def test_a_waiting_job_without_a_count_of_refusals_is_a_problem() -> None:
    shot = snapshot(view("j", S.WAITING, A, waiting_on=A, refusals=None), free={A: 0})
    assert "without a count of refusals" in only(shot)


@pytest.mark.parametrize("state", [S.SCHEDULED, S.READY, S.RUNNING])
def test_a_job_in_another_state_with_a_key_to_wait_on_is_a_problem(state: JobState) -> None:
    shot = snapshot(view("j", state, R, waiting_on=R), free={R: 0})
    assert only(shot) == f"job 'j' is {state}, but is said to wait on 'R'"


@pytest.mark.parametrize("state", [S.SCHEDULED, S.WAITING, S.RUNNING])
def test_an_offer_to_a_job_that_is_not_ready_is_a_problem(state: JobState) -> None:
    job = view("j", state, R, offered_by=R, waiting_on=R if state is S.WAITING else None)
    shot = snapshot(job, free={R: 0}, timers={R: 200} if state is S.WAITING else {})
    assert only(shot) == f"job 'j' is {state}, but counts as offered by 'R'"


def test_an_offer_to_a_job_that_was_set_aside_is_a_problem() -> None:
    shot = snapshot(view("j", S.READY, A, offered_by=A, set_aside=True), free={A: 1})
    assert only(shot) == "job 'j' is set aside, but counts as offered by 'A'"


def test_an_offer_by_a_key_that_the_job_does_not_use_is_a_problem() -> None:
    shot = snapshot(view("j", S.READY, A, offered_by=B), free={B: 1})
    assert only(shot) == "job 'j' counts as offered by 'B', which it does not use"


@pytest.mark.parametrize("state", [S.SCHEDULED, S.RUNNING])
def test_a_job_set_aside_in_another_state_is_a_problem(state: JobState) -> None:
    assert only(snapshot(view("j", state, set_aside=True))) == f"job 'j' is set aside although it is {state}"


# ── lost wake-ups ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_waiter_whose_key_has_room_is_a_problem() -> None:
    shot = snapshot(view("j", S.WAITING, A, waiting_on=A), free={A: 1})
    assert only(shot) == "job 'j' of queue 'default' waits on 'A', which has room for it"


def test_a_waiter_whose_key_has_no_limit_is_a_problem() -> None:
    assert "has room" in only(snapshot(view("j", S.WAITING, A, waiting_on=A), free={A: None}))


def test_room_that_is_offered_to_another_job_of_the_queue_is_no_problem() -> None:
    jobs = [view("j", S.WAITING, A, waiting_on=A), view("k", S.READY, A, offered_by=A)]
    assert audit(snapshot(*jobs, free={A: 1})) == []


def test_room_that_is_offered_in_another_queue_alone_is_a_problem() -> None:
    jobs = [view("j", S.WAITING, A, waiting_on=A), view("k", S.READY, A, offered_by=A, queue="other")]
    assert "job 'j' of queue 'default'" in only(snapshot(*jobs, free={A: 1}))


def test_the_first_in_order_is_the_one_that_is_named() -> None:
    jobs = [
        view("later", S.WAITING, A, waiting_on=A, due=5, order=(50, 1)),
        view("urgent", S.WAITING, A, waiting_on=A, due=9, order=(10, 3)),
        view("sooner", S.WAITING, A, waiting_on=A, due=4, order=(50, 2)),
    ]
    assert "'urgent'" in only(snapshot(*jobs, free={A: 1}))


def test_a_slice_of_a_lifted_limit_that_is_offered_is_no_problem() -> None:
    offered = [view(f"o{number}", S.READY, A, offered_by=A) for number in range(OFFER_MOST)]
    waiting = view("j", S.WAITING, A, waiting_on=A)
    assert audit(snapshot(waiting, *offered, free={A: None})) == []
    assert "has room" in only(snapshot(waiting, *offered[1:], free={A: None}))


def test_a_key_of_which_nothing_is_known_is_a_problem() -> None:
    assert "of which nothing is known" in only(snapshot(view("j", S.WAITING, A, waiting_on=A)))


# ── rates ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def rated(
    free: int | None, timer: int | None, most: int | None = 5, units: int = 1, now: int = 100
) -> Snapshot:
    """One job waits for `units` tokens."""
    job = view("j", S.WAITING, Use(R, units), waiting_on=R)  # type: ignore[arg-type]
    shot = snapshot(job, free={R: free}, timers={} if timer is None else {R: timer}, now=now)
    return msgspec.structs.replace(shot, most={} if most is None else {R: most})


def test_a_rate_wait_with_a_timer_is_no_problem() -> None:
    assert audit(rated(free=0, timer=150)) == []


def test_tokens_that_came_with_time_are_no_problem_once_the_timer_has_rung() -> None:
    assert audit(rated(free=1, timer=100)) == []


def test_a_rate_wait_without_a_timer_is_a_problem() -> None:
    assert only(rated(free=0, timer=None)) == "job 'j' waits on the rate 'R', but no timer is armed"


def test_tokens_that_are_there_before_the_timer_rings_are_a_problem() -> None:
    assert "has room for it before its timer rings" in only(rated(free=1, timer=101))


@pytest.mark.parametrize(("most", "units"), [(0, 1), (2, 3)])
def test_tokens_that_can_never_come_need_no_timer(most: int, units: int) -> None:
    assert audit(rated(free=0, timer=None, most=most, units=units)) == []


def test_a_lifted_rate_with_a_waiter_and_no_timer_is_a_problem() -> None:
    assert "no timer" in only(rated(free=None, timer=None, most=None))


def test_a_costly_head_waits_for_all_its_tokens() -> None:
    assert audit(rated(free=2, timer=150, units=3)) == []


def test_a_timer_on_which_nobody_waits_is_a_problem() -> None:
    assert only(snapshot(timers={R: 150})) == "a timer is armed for 'R', on which no job waits"


def test_a_timer_of_a_concurrency_key_is_a_problem() -> None:
    assert only(snapshot(timers={A: 150})) == "a timer is armed for 'A', on which no job waits"


def test_a_running_job_before_the_virtual_time_of_its_shares_is_no_problem() -> None:
    runs = view("j", JobState.RUNNING, tag=20_000, share="a")
    assert audit(snapshot(runs, virtual={("default", 50): 20_000})) == []
    assert audit(snapshot(runs)) == [], "a store may leave that to the next start"


@pytest.mark.parametrize(
    "virtual", [{}, {("default", 50): 19_999}, {("default", 49): 20_000}, {("other", 50): 20_000}]
)
def test_shares_that_have_not_come_as_far_as_a_running_job_are_a_problem(
    virtual: dict[tuple[str, int], int],
) -> None:
    runs = view("j", JobState.RUNNING, tag=20_000, share="a")
    come = virtual.get(("default", 50), 0)
    assert only(snapshot(runs, virtual=virtual)) == (
        f"job 'j' runs with tag 20000, but the shares of queue 'default' have come to {come}"
    )
