"""The judge of a chaos run: what the jobs, the producers and the one who did the harm have noted, and nothing else,
decides; the store is asked once, at the end, for its audit and for the state of each job.

Each check is a function from a `Case` to sentences; no sentence means that nothing is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.chaos import rules
from tests.chaos.arrivals import history_goes_on, replaced_jobs_do_not_start
from tests.chaos.case import Case, Word, name_of
from tests.chaos.crowds import (
    backlogs_are_bounded,
    ended_jobs_do_not_start,
    expired_jobs_do_not_start,
    may_be_turned_away,
    refused_jobs_are_not_there,
    turned_away_for_others,
)
from tests.chaos.lives import Life
from tests.chaos.notes import of
from tests.chaos.paces import closed_keys_rest, rates_hold
from tests.chaos.turns import shares_take_turns
from tests.chaos.uniques import starts_keep_their_name, the_last_word_runs

MOST_SAID = 20
"""Complaints of one check; more of the same would not help."""

Check = Callable[[Case], Iterator[str]]


def judge(case: Case) -> list[str]:
    """Everything that is wrong."""
    return [f"{check.__name__}: {said}" for check in CHECKS for said in _few(check(case))]


def _few(said: Iterator[str]) -> list[str]:
    all = list(said)
    return all if len(all) <= MOST_SAID else [*all[:MOST_SAID], f"… and {len(all) - MOST_SAID} more"]


def every_acknowledged_job_ends(case: Case) -> Iterator[str]:
    """It is there at the end, in a state that is one; or its deletion was asked for, or it was not to be kept."""
    deleted = case.asked("delete")
    for id, job in case.acknowledged.items():
        state = case.final.states.get(id)
        if state is None and id not in deleted and job["task"] not in rules.FORGOTTEN:
            yield f"job {id} ({job['task']}) was acknowledged and is gone"
        elif state is not None and state not in ("succeeded", "failed", "cancelled"):
            yield f"job {id} ({job['task']}) has not ended, it is {state}"


def every_acknowledged_job_runs(case: Case) -> Iterator[str]:
    """To its end, unless it was cancelled, replaced or turned away; a job that fails is one that was told to. What was
    imported as ended is left to another check."""
    cancelled = case.asked("cancel").keys() | case.may_be_replaced
    cancelled |= {id for id in case.acknowledged if may_be_turned_away(case, id)}
    for id, job in case.acknowledged.items():
        if job.get("past", ["failed"])[-1:] in (["succeeded"], ["cancelled"]):
            continue
        state, ran = case.final.states.get(id), case.by_job.get(id, [])
        finished = any(life.how == "ok" for life in ran)
        if job["task"] in rules.ENDS_FAILED:
            if not ran and id not in cancelled:
                yield f"job {id} ({job['task']}) never ran"
        elif state == "failed":
            yield f"job {id} ({job['task']}) failed"
        elif state == "cancelled" and id not in cancelled:
            yield f"job {id} ({job['task']}) is cancelled, which nothing asked for"
        elif not finished and id not in cancelled:
            yield f"job {id} ({job['task']}) is {state} and never ran to its end"


def success_is_what_the_job_said(case: Case) -> Iterator[str]:
    """A job that succeeded did so in the attempt that the store names, once, as its last."""
    for id, state in case.final.states.items():
        outcomes, ran = case.final.outcomes.get(id, []), case.by_job.get(id, [])
        if state == "succeeded" and id in case.by_job:
            last = case.final.attempts[id]
            if not any(life.attempt == last and life.how == "ok" for life in ran):
                yield f"job {id} succeeded in attempt {last}, which did not run to its end"
            if outcomes and (outcomes.count("succeeded"), outcomes[-1]) != (1, "succeeded"):
                yield f"job {id} succeeded, and its attempts ended as {', '.join(outcomes)}"


def attempts_are_fenced(case: Case) -> Iterator[str]:
    """A number runs once; a later number starts later; no two live attempts of one job."""
    for id, ran in case.by_job.items():
        counts = Counter(life.attempt for life in ran)
        for number, times in counts.items():
            if times > 1:
                yield f"attempt {number} of job {id} ran {times} times"
        for before, after in pairwise(life for life in ran if life.alive):
            if after.attempt < before.attempt:
                yield f"job {id} started attempt {after.attempt} after attempt {before.attempt}"
            if after.start < before.end and after.attempt != before.attempt:
                yield f"job {id}: attempt {after.attempt} started while attempt {before.attempt} was alive"
        for life in ran:
            if (
                life.how == "ok"
                and (later := [a for a in ran if a.attempt > life.attempt])
                and _settled(case, life)
            ):
                yield f"job {id} succeeded in attempt {life.attempt} and ran again as {later[0].attempt}"


def _settled(case: Case, life: Life) -> bool:
    """The store says itself that this attempt succeeded."""
    outcomes = case.final.outcomes.get(life.job, [])
    return len(outcomes) >= life.attempt and outcomes[life.attempt - 1] == "succeeded"


def limits_hold(case: Case) -> Iterator[str]:
    """The units that live attempts of a key take are never more than its number, at any instant."""
    for key, all in case.by_key.items():
        if name_of(key) not in case.maxima:
            continue
        running: list[Life] = []
        for life in (each for each in all if each.alive):
            running = [each for each in running if each.end > life.start]
            running.append(life)
            taken, most = sum(each.units(key) for each in running), _in_force(case, key, life)
            if taken > most:
                who = ", ".join(f"{each.job}#{each.attempt}" for each in running)
                yield f"{taken} ran at once on {key}, {most} may: {who} at {life.start}"


def _in_force(case: Case, key: str, life: Life) -> int:
    """The largest number that may have been in force when this attempt was claimed."""
    most = case.maxima[name_of(key)]
    if name_of(key) != rules.ADJUSTED:
        return most
    declared = rules.MAXIMA[rules.ADJUSTED]
    return max(possible(case.words("set_limit", key), declared, life)) - (declared - most)


def possible(words: Sequence[Word], first: Any, life: Life) -> set[Any]:
    """What operators may have said last when an attempt was claimed. A word that was never answered may take effect at
    any time; one that was answered has until another, asked for later, was answered."""
    over = max((word.asked for word in words if word.acked < life.claimed), default=None)
    said = {word.value for word in words if word.asked <= life.start and (over is None or word.acked >= over)}
    return said if over is not None else {first, *said}


def lines_are_in_order(case: Case) -> Iterator[str]:
    """Of two jobs on one key of one, the one that was acknowledged before the other was asked for starts first; only
    first attempts that were alive count, since one that was lost on its way comes back behind others."""
    steered = {id for verb in ("cancel", "restart", "expedite", "delete") for id in case.asked(verb)}
    asked: dict[str, int] = {}
    again: set[str] = set()
    for each in of(case.notes, "asked"):
        if each["verb"] == "enqueue":
            again |= asked.keys() & set(each["ids"])
            asked |= dict.fromkeys(each["ids"], each["t"])
    first = {id: ran[0] for id, ran in case.by_job.items() if ran[0].attempt == 1 and ran[0].alive}
    lines: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for id, job in case.acknowledged.items():
        if job.get("line") and id in first and id in asked and id not in again and id not in steered:
            lines[first[id].keys[0]].append((first[id].start, job["t"], id))
    for key, jobs in lines.items():
        latest_asked, latest = 0, ""
        for _, acked, id in sorted(jobs):
            if acked < latest_asked:
                yield f"on {key}, job {latest} started before job {id}, which had been enqueued earlier"
            if asked[id] > latest_asked:
                latest_asked, latest = asked[id], id


def paused_queues_rest(case: Case) -> Iterator[str]:
    """Nothing is claimed from a paused queue between the answer to `pause` and the next wish to resume."""
    words = sorted(case.words("pause") + case.words("resume"), key=lambda word: word.asked)
    for life in case.lives:
        if life.queue == "bulk" and possible(words, "resume", life) == {"pause"}:
            yield f"job {life.job} was claimed from the paused queue, at {life.start}"


def cancelled_jobs_do_not_start(case: Case) -> Iterator[str]:
    """After the answer to its cancel no attempt of a job is claimed, unless it was restarted."""
    restarted = case.asked("restart")
    for id, when in case.asked("cancel", "acked").items():
        if id not in restarted:
            for life in case.by_job.get(id, []):
                if life.claimed > when and case.acknowledged.get(id, {"t": when + 1})["t"] < when:
                    yield f"job {id} started as attempt {life.attempt} after it had been cancelled"


def ticks_come_once(case: Case) -> Iterator[str]:
    """A periodic task has at most one job a tick."""
    first = sorted(ran[0].claimed for ran in case.by_job.values() if ran[0].task == "tick")
    if first:
        length = (case.notes[-1]["t"] - case.notes[0]["t"]) / 1e9
        if len(first) > length / rules.TICK + 2:
            yield f"{len(first)} ticks in {length:.0f} s"


def nothing_is_left(case: Case) -> Iterator[str]:
    """The store has come to rest, and finds nothing wrong with itself."""
    yield from case.final.stuck
    yield from case.final.audit
    yield from case.final.held


CHECKS: tuple[Check, ...] = (
    every_acknowledged_job_ends,
    every_acknowledged_job_runs,
    success_is_what_the_job_said,
    attempts_are_fenced,
    limits_hold,
    rates_hold,
    lines_are_in_order,
    paused_queues_rest,
    cancelled_jobs_do_not_start,
    replaced_jobs_do_not_start,
    history_goes_on,
    ticks_come_once,
    closed_keys_rest,
    turned_away_for_others,
    ended_jobs_do_not_start,
    expired_jobs_do_not_start,
    backlogs_are_bounded,
    refused_jobs_are_not_there,
    shares_take_turns,
    the_last_word_runs,
    starts_keep_their_name,
    nothing_is_left,
)
