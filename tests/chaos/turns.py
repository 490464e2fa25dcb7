"""What the judge asks of shared queues."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.chaos import rules
from tests.chaos.case import NEVER, Case

RATIO = max(rules.WEIGHTS) / min(rules.WEIGHTS)
PRODUCERS = 2
STALE = 3
"""Starts during a call, beyond which its jobs are left out."""


class Wait(NamedTuple):
    """A job of a shared queue: when it was asked for, when it was certainly stored, when it was claimed first."""

    id: str
    asked: int
    stored: int
    claimed: int


def shares_take_turns(case: Case) -> Iterator[str]:
    """While a job waits, with some of its share before it, each other share has as many starts as their weights allow.

    It stands a step behind each of those before it, and these behind what had started when it came; jobs of another
    share stand a step of their own apart. Weights change meanwhile, so that their largest ratio counts. What comes
    back keeps its place and may go first: only first attempts count. A store that decides later reads what has started,
    and a share's last place, without a lock: two producers may give their jobs the same places, and a call during which
    others started may give its jobs earlier ones."""
    for task, in_flight in rules.IN_FLIGHT.items():
        yield from _of_task(case, task, in_flight)


def _of_task(case: Case, task: str, in_flight: int) -> Iterator[str]:
    steered = {id for verb in ("cancel", "restart", "expedite", "delete") for id in case.asked(verb)}
    waits = _waits(case, task)
    every = sorted(each.claimed for all in waits.values() for each in all)
    starts = {
        share: sorted(
            each.claimed for each in all if each.id not in steered and _is_placed(case, each, every)
        )
        for share, all in waits.items()
    }
    chains = 1 if case.final.exact else PRODUCERS
    for share, all in waits.items():
        others = [times for other, times in starts.items() if other != share]
        for wait in all:
            if wait.id in steered or wait.stored >= wait.claimed or wait.claimed == NEVER:
                continue
            passed = sum(
                bisect_left(times, wait.claimed) - bisect_right(times, wait.stored) for times in others
            )
            if passed > in_flight and passed > (
                most := chains * _may_pass(wait, all, len(others)) + in_flight
            ):
                yield f"{passed} jobs of others passed by job {wait.id} ({task}, share {share}), {most:g} may"


def _is_placed(case: Case, wait: Wait, starts: list[int]) -> bool:
    """Whether it started, at the place that it got when it came."""
    if wait.stored == NEVER or wait.claimed == NEVER:
        return False
    return case.final.exact or bisect_left(starts, wait.stored) - bisect_right(starts, wait.asked) <= STALE


def _may_pass(wait: Wait, share: list[Wait], others: int) -> float:
    before = sum(
        each.asked <= wait.stored and each.claimed > wait.asked for each in share if each.id != wait.id
    )
    return others * ((before + 1) * RATIO + 1)


def _waits(case: Case, task: str) -> dict[str, list[Wait]]:
    """By share. First attempts that were lost before they noted their start are not known: such a job may have been
    there until its second, and says nothing itself."""
    found: defaultdict[str, list[Wait]] = defaultdict(list)
    seen = {id: ran[0] for id, ran in case.by_job.items() if ran[0].task == task}
    for id, life in seen.items():
        stored = case.acknowledged.get(id, {}).get("t", NEVER) if life.attempt == 1 else NEVER
        found[life.said["share"]].append(Wait(id, case.first_asked[id], stored, life.claimed))
    for id, job in case.acknowledged.items():
        if job["task"] == task and id not in seen:
            found[job["share"]].append(Wait(id, case.first_asked[id], NEVER, NEVER))
    return found
