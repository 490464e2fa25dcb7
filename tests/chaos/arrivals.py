"""What the judge asks of jobs that arrive in another way than by a plain enqueue: imported ones, and ones that replace
another."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.case import Case


def history_goes_on(case: Case) -> Iterator[str]:
    """An imported job keeps the attempts that it came with, and its next attempt is numbered after them. One that came
    as ended does not run, unless it came as cancelled and was restarted."""
    restarted = case.asked("restart")
    for id, job in case.acknowledged.items():
        past: list[str] = job.get("past", [])
        ran, state = case.by_job.get(id, []), case.final.states.get(id)
        for life in ran:
            if life.attempt <= len(past):
                yield f"job {id} ran as attempt {life.attempt}, and came with {len(past)} attempts"
        kept = case.final.outcomes.get(id, past)[: len(past)]
        if state is not None and kept != past:
            yield f"job {id} came with attempts that were {', '.join(past)}, and has {', '.join(kept)}"
        came_as = past[-1] if past else "failed"
        if came_as != "failed" and not (came_as == "cancelled" and id in restarted):
            if ran:
                yield f"job {id} came as {came_as}, and ran"
            if state not in (None, came_as):
                yield f"job {id} came as {came_as}, and is {state}"


def replaced_jobs_do_not_start(case: Case) -> Iterator[str]:
    """Once a job is stored that replaces the one of its unique name, no earlier job of that name starts, unless it is
    restarted."""
    restarted = case.asked("restart")
    named = [(id, job) for id, job in case.acknowledged.items() if job.get("unique") and id not in restarted]
    for each in case.replacements:
        if not each.done or not _is_stored(case, each.id):
            continue
        for id, job in named:
            if job["unique"] == each.name and id != each.id and job["t"] < each.asked:
                for life in case.by_job.get(id, []):
                    if life.claimed > each.answered:
                        yield f"job {id} started as attempt {life.attempt} after {each.id} had replaced it"


def _is_stored(case: Case, id: str) -> bool:
    return case.acknowledged.get(id, {}).get("own", False)
