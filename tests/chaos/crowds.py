"""What the judge asks where there is no room: who may be turned away and why, how many may wait, and until when."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos import rules
from tests.chaos.case import NEVER, Case
from tests.chaos.notes import of

CLOCKS = 50_000_000
"""Nanoseconds by which the store's stamps and the notes may differ after a run of minutes."""
ROUNDED = 2_000_000
"""Nanoseconds by which they may differ within seconds."""
REPLACED = re.compile(r"replaced: job '([^']+)' came for")


def may_be_turned_away(case: Case, id: str) -> bool:
    """Whether a job that did not run to its end was cancelled by what its own limit says, or its expiry: the reason
    says so, unless it was deleted since. One that was asked to stop as it ran has none."""
    task, reason = case.acknowledged[id]["task"], case.final.reasons.get(id, "")
    if task == "draft":
        return len(_others(case, id)) >= rules.OTHERS[task]
    return task in rules.TURNED_AWAY and (
        id not in case.final.states or reason.startswith(rules.TURNED_AWAY[task])
    )


def turned_away_for_others(case: Case) -> Iterator[str]:
    """A job that was dropped or replaced had others about that kept the place. One that expired was too late."""
    steered = case.asked("cancel").keys() | case.asked("restart").keys()
    for id, reason in case.final.reasons.items():
        job = case.acknowledged.get(id)
        if job is None or id in steered or not may_be_turned_away(case, id):
            continue
        if found := REPLACED.match(reason):
            if found[1] not in _others(case, id):
                yield f"job {id} was replaced by {found[1]}, which had not come"
        elif job["task"] in rules.OTHERS and len(_others(case, id)) < rules.OTHERS[job["task"]]:
            yield f"job {id} ({job['task']}) was dropped, and there were {len(_others(case, id))} others"
        elif job.get("within") and case.final.ended[id] < _until(case, id, case.first_asked[id]) - CLOCKS:
            yield f"job {id} ({job['task']}) expired too early"


def _until(case: Case, id: str, since: int) -> int:
    return since + int(case.acknowledged[id]["within"] * 1e9)


def _others(case: Case, id: str) -> list[str]:
    """Jobs of the same bound that may have been there when this one ended, or at any time since it was asked for."""
    since, until = case.first_asked[id], case.final.ended.get(id, NEVER)
    return [
        each
        for each in case.by_bound.get(case.bounds.get(id, ""), [])
        if each != id
        and case.first_asked[each] <= until + CLOCKS
        and case.final.ended.get(each, NEVER) >= since - CLOCKS
    ]


def ended_jobs_do_not_start(case: Case) -> Iterator[str]:
    """Nothing of a job is claimed after the store says that it has ended: what was dropped or replaced never runs."""
    restarted = case.asked("restart")
    for id, when in case.final.ended.items():
        if id not in restarted:
            for life in case.by_job.get(id, []):
                if life.claimed > when + CLOCKS:
                    yield f"job {id} started as attempt {life.attempt} after it had ended"


def expired_jobs_do_not_start(case: Case) -> Iterator[str]:
    """No first attempt is claimed after the moment until which it had to be."""
    restarted = case.asked("restart")
    for id, job in case.acknowledged.items():
        for life in case.by_job.get(id, [])[:1]:
            if job.get("within") and life.attempt == 1 and id not in restarted:
                late = life.claimed - _until(case, id, job["t"])
                if late > ROUNDED:
                    yield f"job {id} was claimed {late / 1e9:.3f} s after it had expired"


def backlogs_are_bounded(case: Case) -> Iterator[str]:
    """Where an enqueue is decided on at once, no more newcomers are pending at any time than may wait, and have room.
    Elsewhere none is taken when so many were there before it was asked for, and are there after its answer."""
    restarted = case.asked("restart")
    for key, ids in case.by_bound.items():
        name = key.partition("=")[0]
        if name not in rules.PENDING:
            continue
        most = rules.PENDING[name]
        pending = [span for id in ids if id not in restarted and (span := _pending(case, id)) is not None]
        if case.final.exact:
            yield from _too_many(key, pending, most)
        elif name == "crm":
            yield from _not_refused(key, pending, most)


def _pending(case: Case, id: str) -> tuple[int, int, int] | None:
    """When a plain newcomer was asked for, when it was certainly stored, and until when it certainly waited."""
    job, ran = case.acknowledged.get(id), case.by_job.get(id, [])
    if job is None or job["delayed"] or not job["own"]:
        return None
    if ran[0].attempt != 1 if ran else case.final.attempts.get(id) != 0:
        return None  # its first attempt may have been lost before it could note its start
    stored: int = job["t"]
    until = ran[0].claimed if ran else case.final.ended[id]
    return (case.first_asked[id], stored, until) if until > stored else None


def _too_many(key: str, pending: list[tuple[int, int, int]], most: int) -> Iterator[str]:
    changes = sorted([(until, -1) for _, _, until in pending] + [(since, 1) for _, since, _ in pending])
    count = 0
    for when, change in changes:
        count += change
        if count > most:
            yield f"{count} jobs were pending on {key} at {when}, {most} may"


def _not_refused(key: str, pending: list[tuple[int, int, int]], most: int) -> Iterator[str]:
    for asked, acked, _ in pending:
        before = sum(since < asked and until > acked for _, since, until in pending)
        if before >= most:
            yield f"a job was stored on {key} at {acked}, where {before} were pending; {most} may"


def refused_jobs_are_not_there(case: Case) -> Iterator[str]:
    """Of a call that met a full backlog nothing is stored, unless it was asked once more."""
    asked = Counter(id for each in of(case.notes, "asked") if each["verb"] == "enqueue" for id in each["ids"])
    full: defaultdict[str, int] = defaultdict(int)
    for each in of(case.notes, "refused"):
        for id in each["ids"] if each["error"].startswith("BacklogFull") else ():
            full[id] += 1
    for id, times in full.items():
        if times == asked[id] and (id in case.final.states or id in case.by_job):
            yield f"job {id} was refused, and is there"
