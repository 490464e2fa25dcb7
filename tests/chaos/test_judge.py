"""The judge of chaos runs complains about each thing that can be wrong, and about nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.worker.duties.recheck import DEFECT
from tests.chaos import flow_stories, rules
from tests.chaos.judge import CHECKS
from tests.chaos.run import healed
from tests.chaos.story import MS, Story, names, quiet


@pytest.fixture
def story() -> Story:
    return quiet()


def test_a_story_without_faults_is_not_complained_about(story: Story):
    assert story.said() == []


def lose(story: Story) -> None:
    del story.final.states["j1"]


def hang(story: Story) -> None:
    story.final.states["j1"] = "waiting"


def skip(story: Story) -> None:
    story.enqueue(5, "j3")


def fail(story: Story) -> None:
    story.final.states["j1"] = "failed"


def cancel_by_itself(story: Story) -> None:
    story.final.states["j1"] = "cancelled"


def break_off(story: Story) -> None:
    story.notes = [each for each in story.notes if not (each["kind"] == "end" and each["job"] == "j1")]
    story.note(160, "killed", 1)


def succeed_in_another(story: Story) -> None:
    story.final.attempts["j1"] = 2


def succeed_twice(story: Story) -> None:
    story.run("j1", 300, 310, "customer=1", attempt=2)
    story.final.attempts["j1"] = 2
    story.final.outcomes["j1"] = ["succeeded", "succeeded"]


def run_a_number_twice(story: Story) -> None:
    story.run("j1", 300, 310, "customer=1", attempt=1, pid=2)


def go_back(story: Story) -> None:
    story.run("j2", 300, 310, "customer=1", attempt=3)
    story.run("j2", 400, 410, "customer=1", attempt=2)
    story.final.attempts["j2"] = 3


def run_beside_itself(story: Story) -> None:
    story.run("j1", 120, 130, "customer=2", attempt=2, pid=2)
    story.final.attempts["j1"] = 2


def overlap(story: Story) -> None:
    story.run("j4", 120, 130, "customer=1")


def fill_a_window(story: Story) -> None:
    rate = rules.WINDOWS["account"]
    for number in range(rate.most + 1):
        story.run(f"w{number}", 1000 + number, 1000 + number, "account=1")


def empty_a_bucket(story: Story) -> None:
    rate = rules.BUCKETS["api"]
    for number in range(rate.burst + 3):
        story.run(f"b{number}", 1000 + number, 1000 + number, "api=1")


def overtake(story: Story) -> None:
    for number, start in ((1, 3000), (2, 2000)):
        story.enqueue(1000 + 10 * number, f"l{number}", "queue_up", line="1")
        story.run(f"l{number}", start, start + 10, "line=1", task="queue_up")


def claim_while_paused(story: Story) -> None:
    story.ask(1000, "pause")
    story.run("p1", 9000, 9010, "queue:bulk", queue="bulk")
    story.ask(9500, "resume")


def start_after_a_cancel(story: Story) -> None:
    story.ask(10, "cancel", "j1")


def bring(story: Story, id: str, *past: str) -> None:
    """An imported job that runs as its history says."""
    story.note(1000, "asked", 90, verb="import", ids=[id])
    job = {"id": id, "own": True, "task": "visit", "past": list(past), "line": None}
    story.note(1001, "acked", 90, verb="import", jobs=[job])
    ended = past[-1:] in (("succeeded",), ("cancelled",))
    if not ended:
        story.run(id, 2000, 2010, "customer=5", attempt=len(past) + 1)
    story.final.states[id] = past[-1] if ended else "succeeded"
    story.final.attempts[id] = len(past) + (not ended)
    story.final.outcomes[id] = [*past, *([] if ended else ["succeeded"])]


def run_an_attempt_of_the_past(story: Story) -> None:
    bring(story, "i1", "failed", "failed")
    story.run("i1", 1500, 1510, "customer=5", attempt=2)


def forget_the_past(story: Story) -> None:
    bring(story, "i1", "failed", "failed")
    story.final.outcomes["i1"] = ["failed", "succeeded"]


def run_what_came_as_ended(story: Story) -> None:
    bring(story, "i1", "failed", "succeeded")
    story.run("i1", 2000, 2010, "customer=5", attempt=3)


def revive_what_came_as_ended(story: Story) -> None:
    bring(story, "i1", "cancelled")
    story.final.states["i1"] = "failed"


def lose_an_imported_job(story: Story) -> None:
    bring(story, "i1", "failed")
    del story.final.states["i1"]


def skip_an_imported_job(story: Story) -> None:
    bring(story, "i1", "failed")
    story.notes = [each for each in story.notes if each.get("job") != "i1"]


def start_after_a_replacement(story: Story) -> None:
    story.only_one(1000, "u1", "name")
    story.only_one(1010, "u2", "name", replace=True)
    story.run("u2", 2000, 2010, "unique=name", task="only_one")
    story.run("u1", 3000, 3010, "unique=name", task="only_one")


def tick_too_often(story: Story) -> None:
    for number in range(10):
        story.run(f"t{number}", 300 + number, 300 + number, "tick", task="tick")


def leave_a_slot(story: Story) -> None:
    story.final.held.append("customer=1 is held by 1")


DOCTORED: dict[str, tuple[Callable[[Story], None], ...]] = {
    **flow_stories.DOCTORED,
    "every_acknowledged_job_ends": (lose, hang, lose_an_imported_job),
    "every_acknowledged_job_runs": (
        skip,
        fail,
        cancel_by_itself,
        break_off,
        skip_an_imported_job,
        *flow_stories.NOT_RUN,
    ),
    "success_is_what_the_job_said": (succeed_in_another, succeed_twice, break_off),
    "attempts_are_fenced": (run_a_number_twice, go_back, run_beside_itself, succeed_twice),
    "limits_hold": (overlap, *flow_stories.TOO_MUCH_AT_ONCE),
    "rates_hold": (fill_a_window, empty_a_bucket, *flow_stories.TOO_MUCH_SPENT),
    "lines_are_in_order": (overtake,),
    "paused_queues_rest": (claim_while_paused,),
    "cancelled_jobs_do_not_start": (start_after_a_cancel,),
    "replaced_jobs_do_not_start": (start_after_a_replacement,),
    "history_goes_on": (
        run_an_attempt_of_the_past,
        forget_the_past,
        run_what_came_as_ended,
        revive_what_came_as_ended,
    ),
    "ticks_come_once": (tick_too_often,),
    "nothing_is_left": (leave_a_slot,),
}


def test_every_check_is_tried():
    assert set(DOCTORED) == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize("tell", flow_stories.RIGHT)
def test_what_is_right_is_not_complained_about(story: Story, tell: Callable[[Story], None]):
    tell(story)
    assert story.said() == []


@pytest.mark.parametrize(
    ("check", "doctor"), [(check, doctor) for check, doctors in DOCTORED.items() for doctor in doctors]
)
def test_what_is_wrong_is_noticed(story: Story, check: str, doctor: Callable[[Story], None]):
    doctor(story)
    assert check in names(story.said())


# ── what explains an overlap, and what does not ──────────────────────────────────────────────────────────────────────


def test_a_killed_process_ends_its_attempts(story: Story):
    story.run("k1", 1000, None, "customer=3", pid=7)
    story.note(1100, "killed", 7)
    story.run("k1", 1200, 1250, "customer=3", attempt=2)
    assert story.said() == []
    story.run("k2", 1090, 1095, "customer=3")
    assert names(story.said()) == {"limits_hold"}


def test_what_starts_between_the_note_of_a_kill_and_the_kill_is_not_alive_for_ever(story: Story):
    story.note(1100, "killed", 7)
    story.run("k1", 1101, None, "customer=3", pid=7)
    story.run("k1", 1200, 1250, "customer=3", attempt=2)
    assert story.said() == []
    story.run("k2", 1210, 1220, "customer=3")
    assert names(story.said()) == {"limits_hold"}


def test_an_attempt_is_its_workers_own_as_long_as_the_lease_is_certain_and_no_longer(story: Story):
    story.renew(900, 1200)
    story.run("f1", 1000, 5000, "customer=3", pid=7, worker="w")
    story.run("f2", 2160, 2170, "customer=3")
    assert story.said() == []
    story.run("f3", 2140, 2150, "customer=3")
    assert names(story.said()) == {"limits_hold"}


def test_a_lease_that_was_renewed_too_late_does_not_go_on(story: Story):
    story.renew(900, 2500)
    story.run("f1", 1000, 5000, "customer=3", pid=7, worker="w")
    story.run("f2", 2600, 2700, "customer=3")
    assert story.said() == []


def test_what_starts_when_its_worker_has_lost_the_lease_counts_for_nothing(story: Story):
    """A process without a processor may start what it was given when the store has long begun a later attempt."""
    story.renew(1000)
    story.run("f1", 2100, 2200, "customer=3", attempt=2)
    story.run("f1", 2150, 2160, "customer=3", pid=7, worker="w")
    assert story.said() == []
    story.renew(1900)
    assert names(story.said()) == {"limits_hold", "attempts_are_fenced"}


def test_an_adjusted_limit_is_held_to_what_operators_may_have_said_last(story: Story):
    story.ask(1000, "set_limit", key="adjusted=1", max=1)
    story.run("a1", 2000, 2100, "adjusted=1")
    story.run("a2", 2050, 2060, "adjusted=1")
    assert names(story.said()) == {"limits_hold"}
    story.note(1900, "asked", 92, verb="set_limit", key="adjusted=1", max=3)
    assert story.said() == []


def test_a_raised_limit_that_was_never_answered_stays_possible(story: Story):
    story.note(900, "asked", 92, verb="set_limit", key="adjusted=1", max=3)
    story.ask(1000, "set_limit", key="adjusted=1", max=1)
    for number in range(3):
        story.run(f"a{number}", 2000 + number, 2100, "adjusted=1")
    assert story.said() == []


def test_a_job_was_claimed_after_its_exchange_was_sent_whatever_the_store_says(story: Story):
    rate = rules.WINDOWS["account"]
    for number in range(rate.most):
        story.run(f"w{number}", 3000, 3001, "account=1", claimed=1900 * MS, sent=1800 * MS)
    story.run("next", 3010, 3011, "account=1")
    assert story.said() == []
    for each in story.notes:
        if each["kind"] == "start":
            each["sent"] = each["t"] - MS
    assert names(story.said()) == {"rates_hold"}


def test_only_first_attempts_that_were_asked_for_once_stand_in_line(story: Story):
    story.enqueue(1000, "l1", "queue_up", line="1")
    story.enqueue(1010, "l2", "queue_up", line="1")
    story.run("l2", 2000, 2010, "line=1", task="queue_up")
    story.run("l1", 3000, 3010, "line=1", attempt=2, task="queue_up")
    story.final.attempts["l1"] = 2
    assert story.said() == []


@pytest.mark.parametrize("past", [(), ("failed",), ("failed", "succeeded"), ("cancelled",)])
def test_an_imported_job_that_goes_on_after_its_history_is_not_complained_about(
    story: Story, past: tuple[str, ...]
):
    bring(story, "i1", *past)
    assert story.said() == []


def test_a_job_that_came_as_cancelled_runs_when_it_is_restarted(story: Story):
    bring(story, "i1", "cancelled")
    story.ask(1500, "restart", "i1")
    story.run("i1", 2000, 2010, "customer=5", attempt=2)
    story.final.states["i1"], story.final.attempts["i1"] = "succeeded", 2
    story.final.outcomes["i1"] = ["cancelled", "succeeded"]
    assert story.said() == []


def test_a_replacement_explains_that_the_other_job_is_cancelled_and_a_refused_one_does_not(story: Story):
    story.only_one(1000, "u1", "name")
    story.final.states["u1"] = "cancelled"
    assert names(story.said()) == {"every_acknowledged_job_runs"}
    before = list(story.notes)
    story.only_one(1010, "u2", "name", replace=True)
    story.run("u2", 2000, 2010, "unique=name", task="only_one")
    assert story.said() == []
    story.notes = before
    del story.final.states["u2"]
    story.note(900, "asked", 90, verb="enqueue", ids=["u2"], replaces=[("u2", "name")])
    story.note(910, "refused", 90, verb="enqueue", ids=["u2"], error="JobExists('name')")
    assert names(story.said()) == {"every_acknowledged_job_runs"}


def test_a_replacement_that_was_never_answered_may_have_cancelled_any_later_job(story: Story):
    story.note(900, "asked", 90, verb="enqueue", ids=["u2"], replaces=[("u2", "name")])
    story.note(910, "refused", 90, verb="enqueue", ids=["u2"], error="EngineUnavailable('gone')")
    story.only_one(1000, "u1", "name")
    story.final.states["u1"] = "cancelled"
    assert story.said() == []


def test_what_a_recheck_had_to_mend_is_found_in_the_logs(tmp_path: Path):
    (tmp_path / "worker.log").write_text(
        f"2026-01-01 ERROR headgate.worker: {DEFECT % 'a job waited on A'}\n2026-01-01 INFO headgate.worker: begins\n"
    )
    (tmp_path / "shifted.log").write_bytes(b"cut off \xc3\n")
    assert healed(tmp_path) == ["recheck: a job waited on A"]
