"""What can be wrong with flow control, and what looks like it and is right."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos import rules
from tests.chaos.story import MS, Story

Doctor = Callable[[Story], None]
DROPPED = "dropped: limit 'page=1' was full (when_full='drop')"
REPLACED = "replaced: job 'v2' came for limit 'view=1' (when_full='replace')"
EXPIRED = "expired: it was not started in time"


def overfill_a_shelf(story: Story) -> None:
    for number, size in enumerate((5, 3, 1)):
        story.run(f"s{number}", 1000 + number, 1100, "shelf=1", units={"shelf=1": size})


def fill_a_shelf(story: Story) -> None:
    for number, size in enumerate((5, 2, 1)):
        story.run(f"s{number}", 1000 + number, 1100, "shelf=1", units={"shelf=1": size})


def hold_a_desk_too_many(story: Story) -> None:
    for number in range(rules.MAXIMA["desk"] + 1):
        story.run(f"d{number}", 1000 + number, 1100, "desk", task="slot" if number else "attend")


# ── costs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spend(
    story: Story, id: str, at: float, estimate: int, truth: int, heard: float | None, key: str
) -> None:
    story.run(id, at, at + 5, key, units={key: estimate})
    story.note(at + 4, "spent", job=id, attempt=1, units=truth)
    if heard is not None:
        story.note(heard, "heard", job=id, attempt=1, units=truth, sent=int((heard - 1) * MS))


def spend_estimates_that_were_true(story: Story) -> None:
    for number in range(3):
        _spend(story, f"t{number}", 1000 + number, 300, 300, None, "tokens")


def forget_a_debt(story: Story) -> None:
    _spend(story, "t1", 1000, 200, 5000, 1010, "tokens")
    _spend(story, "t2", 1100, 100, 100, None, "tokens")


def forget_a_debt_of_a_window(story: Story) -> None:
    _spend(story, "t1", 1000, 200, 1500, 1010, "words")
    _spend(story, "t2", 1100, 100, 100, None, "words")


def give_back_what_was_not_needed(story: Story) -> None:
    for number in range(20):
        _spend(story, f"t{number}", 1000 + number * 10, 400, 10, None, "tokens")


def start_before_a_debt_is_known(story: Story) -> None:
    _spend(story, "t1", 1000, 200, 5000, 1200, "tokens")
    _spend(story, "t2", 1100, 100, 100, None, "tokens")


def _close(story: Story) -> None:
    story.run("c1", 1000, 1010, "service=1", how="Throttled")
    story.note(1020, "closed", job="c1", attempt=1, sent=1015 * MS, seconds=0.5)
    story.run("c1", 1600, 1610, "service=1", attempt=2)


def start_on_a_closed_key(story: Story) -> None:
    _close(story)
    story.run("c2", 1300, 1310, "service=1")


def start_on_a_key_that_was_open_when_it_was_asked_for(story: Story) -> None:
    _close(story)
    story.run("c2", 1300, 1310, "service=1", claimed=1018 * MS, sent=1018 * MS)
    story.run("c3", 1516, 1520, "service=1")


# ── no room ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _refresh(story: Story, id: str, at: float, end: float) -> None:
    story.enqueue(at, id, "refresh", bound="page=1")
    story.run(id, at + 10, end, "page=1", task="refresh")
    story.final.ended[id] = int((end + 1) * MS)


def drop_beside_another(story: Story) -> None:
    _refresh(story, "p1", 1000, 1500)
    story.enqueue(1200, "p2", "refresh", bound="page=1")
    story.cancel(1201, "p2", DROPPED)


def drop_where_there_is_room(story: Story) -> None:
    _refresh(story, "p1", 1000, 1100)
    story.enqueue(1200, "p2", "refresh", bound="page=1")
    story.cancel(1201, "p2", DROPPED)


def run_what_was_dropped(story: Story) -> None:
    drop_beside_another(story)
    story.run("p2", 1600, 1700, "page=1", task="refresh")


def drop_for_a_reason_of_another_task(story: Story) -> None:
    drop_beside_another(story)
    story.final.reasons["p2"] = "dropped: 4 jobs wait for 'inbox=1' already (max_waiting)"


def replace_by_a_newer_one(story: Story) -> None:
    for number in (1, 2):
        story.enqueue(1000 + number, f"v{number}", "view", bound="view=1")
    story.run("v2", 1100, 1110, "view=1", task="view")
    story.final.ended["v2"] = 1111 * MS
    story.cancel(1002, "v1", REPLACED)


def replace_by_one_that_never_came(story: Story) -> None:
    replace_by_a_newer_one(story)
    story.final.reasons["v1"] = REPLACED.replace("v2", "v9")


def stop_a_draft_for_another(story: Story) -> None:
    for number in (1, 2):
        story.enqueue(1000 * number, f"d{number}", "draft", bound="draft=1")
        story.run(f"d{number}", 1000 * number + 10, 2005 * number, "draft=1", task="draft", how="cancelled")
    story.cancel(2006, "d1", "")
    story.run("d2", 5000, 5010, "draft=1", attempt=2, task="draft")
    story.final.attempts["d2"] = 2


def stop_a_draft_for_nothing(story: Story) -> None:
    story.enqueue(1000, "d1", "draft", bound="draft=1")
    story.run("d1", 1010, 2005, "draft=1", task="draft", how="cancelled")
    story.cancel(2006, "d1", "")


def overflow(story: Story) -> None:
    for number in range(rules.PENDING["crm"] + 1):
        story.enqueue(1000 + number, f"o{number}", "sync", bound="crm=1")
        story.run(f"o{number}", 2000 + number, 2000.5 + number, "crm=1", task="sync")
        story.final.ended[f"o{number}"] = int((2001 + number) * MS)


def overflow_where_calls_do_not_see_each_other(story: Story) -> None:
    overflow(story)
    story.final.exact = False
    for each in story.notes:
        if each["kind"] == "asked" and each["ids"][0].startswith("o"):
            each["t"] = 1000 * MS


def overflow_by_later_calls(story: Story) -> None:
    overflow(story)
    story.final.exact = False
    late = rules.PENDING["crm"]
    for each in story.notes:
        if f"o{late}" in each.get("ids", ()) or any(job["id"] == f"o{late}" for job in each.get("jobs", ())):
            each["t"] += 500 * MS


def store_what_was_refused(story: Story) -> None:
    story.note(1000, "asked", 90, verb="enqueue", ids=["r1"], bounds={"r1": "crm=1"})
    story.note(1001, "refused", 90, verb="enqueue", ids=["r1"], error="BacklogFull('crm=1')")
    story.run("r1", 2000, 2010, "crm=1", task="sync")


def ask_again_for_what_was_refused(story: Story) -> None:
    store_what_was_refused(story)
    story.note(1002, "asked", 90, verb="enqueue", ids=["r1"], bounds={"r1": "crm=1"})


def start_in_time(story: Story) -> None:
    story.enqueue(1000, "h1", "hurry", within=0.5)
    story.run("h1", 1490, 1500, "counter=1", task="hurry")


def start_too_late(story: Story) -> None:
    story.enqueue(1000, "h1", "hurry", within=0.5)
    story.run("h1", 1600, 1610, "counter=1", task="hurry")


def expire_too_early(story: Story) -> None:
    story.enqueue(1000, "h1", "hurry", within=0.5)
    story.cancel(1400, "h1", EXPIRED)


def expire_in_time(story: Story) -> None:
    story.enqueue(1000, "h1", "hurry", within=0.5)
    story.cancel(1501, "h1", EXPIRED)


# ── shares, unique names ─────────────────────────────────────────────────────────────────────────────────────────────


def _crowd(story: Story, before: int, task: str = "booth") -> None:
    """So many starts of one share go before the only job of another."""
    for number in range(before):
        story.enqueue(1000, f"a{number}", task, share="a")
        story.run(f"a{number}", 1010 + number, 1010.5 + number, "booth", task=task, share="a")
    story.enqueue(1001, "b", task, share="b")
    story.run("b", 1010 + before, 1011 + before, "booth", task=task, share="b")


def let_a_share_starve(story: Story) -> None:
    _crowd(story, rules.IN_FLIGHT["booth"] + 7)


def let_a_share_wait_for_its_turn(story: Story) -> None:
    _crowd(story, rules.IN_FLIGHT["booth"] + 5)


def _update(story: Story, at: float, id: str, version: str) -> None:
    story.note(at, "asked", 90, verb="enqueue", ids=[version])
    job = {
        "id": id,
        "own": id == version,
        "task": "index",
        "line": None,
        "unique": "doc-1",
        "version": version,
    }
    story.note(at + 1, "acked", 90, verb="enqueue", jobs=[job])
    story.final.states[id], story.final.attempts[id] = "succeeded", 1


def _index(story: Story, version: str, put_off: float = rules.PUT_OFF) -> None:
    _update(story, 1000, "x1", "x1")
    _update(story, 1100, "x1", "x2")
    story.run("x1", 1500, 1510, "index", task="index", version=version, put_off=put_off)


def run_the_last_word(story: Story) -> None:
    _index(story, "x2", rules.AT_MOST)


def run_an_earlier_word(story: Story) -> None:
    _index(story, "x1")


def put_off_for_ever(story: Story) -> None:
    _index(story, "x2", rules.AT_MOST + 1)


def put_off_and_expedite(story: Story) -> None:
    put_off_for_ever(story)
    story.ask(1400, "expedite", "x1")


def greet_at_once_again(story: Story) -> None:
    for number in (1, 2):
        story.run(f"g{number}", 500 * number, 500 * number + 10, "greet", task="greet", greets="you")


def greet_again(story: Story) -> None:
    for number in (1, 2):
        story.run(f"g{number}", 1000 * number, 1000 * number + 10, "greet", task="greet", greets="you")


TOO_MUCH_AT_ONCE: tuple[Doctor, ...] = (overfill_a_shelf, hold_a_desk_too_many)
TOO_MUCH_SPENT: tuple[Doctor, ...] = (
    spend_estimates_that_were_true,
    forget_a_debt,
    forget_a_debt_of_a_window,
)
DOCTORED: dict[str, tuple[Doctor, ...]] = {
    "closed_keys_rest": (start_on_a_closed_key,),
    "turned_away_for_others": (drop_where_there_is_room, replace_by_one_that_never_came, expire_too_early),
    "ended_jobs_do_not_start": (run_what_was_dropped,),
    "expired_jobs_do_not_start": (start_too_late,),
    "backlogs_are_bounded": (overflow, overflow_by_later_calls),
    "refused_jobs_are_not_there": (store_what_was_refused,),
    "shares_take_turns": (let_a_share_starve,),
    "the_last_word_runs": (run_an_earlier_word, put_off_for_ever),
    "starts_keep_their_name": (greet_at_once_again,),
}
NOT_RUN: tuple[Doctor, ...] = (drop_for_a_reason_of_another_task, stop_a_draft_for_nothing)
"""Jobs that did not run, and nothing says why."""
RIGHT: tuple[Doctor, ...] = (
    fill_a_shelf,
    give_back_what_was_not_needed,
    start_before_a_debt_is_known,
    start_on_a_key_that_was_open_when_it_was_asked_for,
    drop_beside_another,
    replace_by_a_newer_one,
    stop_a_draft_for_another,
    overflow_where_calls_do_not_see_each_other,
    ask_again_for_what_was_refused,
    start_in_time,
    expire_in_time,
    let_a_share_wait_for_its_turn,
    run_the_last_word,
    put_off_and_expedite,
    greet_again,
)
