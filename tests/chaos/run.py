"""One chaos run: start everything, do harm for a while, let it come to rest, ask the store what is left."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from headgate import App, JobState
from headgate.app import slots
from headgate.app.info import JobInfo
from headgate.errors import HeadgateError
from headgate.worker.duties import recheck
from tests.chaos import notes, rules
from tests.chaos.case import Case, Final
from tests.chaos.fleet import Fleet
from tests.chaos.judge import judge
from tests.chaos.notes import note
from tests.chaos.places import PLACES, Place
from tests.support.waiting import eventually

UNFINISHED = [state for state in JobState if not state.ended]
REST = 60.0
"""Seconds in which something must end, when no more harm is done, until everything has."""
PAGE = 500
PROCESSES = 7
"""Four that run jobs, one that takes slots, two producers."""
MENDED = recheck.DEFECT.removesuffix("%s")
"""What a worker's log says of a defect that a recheck has found."""


class Outcome(msgspec.Struct):
    """What a run came to."""

    engine: str
    seed: int
    seconds: float
    faults: dict[str, int]
    jobs: int
    attempts: int
    lost: int
    problems: list[str]
    final: Final


def run(engine: str, seconds: float, seed: int, folder: Path, pace: float = 0.03) -> Outcome:
    """A whole run in a folder of its own; the notes stay there."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["CHAOS_FOLDER"] = str(folder)
    dice = random.Random(seed)
    place = PLACES[engine](folder)
    try:
        _prepare(place)
        fleet = Fleet(place, folder, dice, pace)
        try:
            counts = _harm(place, fleet, dice, seconds)
            final = _rest(place, fleet)
            final.audit += healed(folder)
        finally:
            fleet.kill()
    finally:
        place.close()
    all = notes.read(folder)
    (folder / "final.json").write_bytes(msgspec.json.encode(final))
    case = Case(all, final)
    lost = sum(life.how == "unknown" for life in case.lives)
    jobs = len(case.acknowledged)
    return Outcome(engine, seed, seconds, dict(counts), jobs, len(case.lives), lost, judge(case), final)


def _prepare(place: Place) -> None:
    with App(place.direct) as app:
        app.migrate_sync()


def _harm(place: Place, fleet: Fleet, dice: random.Random, seconds: float) -> Counter[str]:
    """One fault after another; those of the store last a while, during which the processes are harmed, too."""
    counts: Counter[str] = Counter()
    fleet.mend()
    _settle_in(fleet.folder)
    end = time.monotonic() + seconds
    heal_at: float | None = None
    harm: list[tuple[int, str, Callable[[], object]]] = [
        (6, "workers killed", fleet.kill_worker),
        (4, "workers frozen", fleet.freeze_worker),
        (1, "supervisors killed", fleet.kill_supervisor),
        (1, "producers killed", fleet.kill_producer),
    ]
    while time.monotonic() < end:
        if heal_at is not None and time.monotonic() > heal_at:
            place.heal()
            note("healed", id="store")
            heal_at = None
        elif heal_at is None and dice.random() < 0.5:
            name, fault = dice.choice(list(place.faults().items()))
            note("fault", id="store", name=name)
            counts[name] += 1
            heal_at = time.monotonic() + fault(dice)
        if dice.random() < 0.3:
            _, name, act = dice.choices(harm, [weight for weight, _, _ in harm])[0]
            counts[name] += 1
            act()
        fleet.thaw()
        fleet.mend()
        time.sleep(dice.uniform(0.1, 0.6))
    place.heal()
    note("healed", id="store")
    fleet.thaw(all=True)
    return counts


def _settle_in(folder: Path) -> None:
    """Processes take a second to start, on a busy machine many; harm before that would meet nothing."""

    def at_work() -> bool:
        return len({each["pid"] for each in notes.of(notes.read(folder), "renewed", "asked")}) >= PROCESSES

    eventually(at_work, "all processes to be at work", 300, every=0.2)


def _rest(place: Place, fleet: Fleet) -> Final:
    """No more harm and no more jobs: every job must end. Then the workers go, and the store is looked at."""
    fleet.stop_producers()
    with App(place.direct) as app:
        _calm_down(app)
        stuck = _wait(app, fleet)
        stuck += fleet.stop()
        final = _look(app, place)
        final.stuck += stuck
        return final


def _calm_down(app: App) -> None:
    note("asked", verb="resume")
    _try(lambda: app.resume_sync("bulk"))
    note("acked", verb="resume")
    for limit in _try(app.limits_sync):
        if limit.override is not None:
            note("asked", verb="set_limit", key=limit.key, max=rules.MAXIMA[rules.ADJUSTED])
            _try(lambda key=limit.key: app.clear_limit_sync(key))
            note("acked", verb="set_limit", key=limit.key, max=rules.MAXIMA[rules.ADJUSTED])


def _wait(app: App, fleet: Fleet) -> list[str]:
    """Periodic jobs go on coming: a moment without any other is enough. However slow the machine is, one job ends after
    the other."""
    before, until = set[str](), 0.0
    while True:
        fleet.mend_workers()
        left = [job for job in _try(lambda: app.jobs_sync(state=UNFINISHED, size=PAGE)) if job.task != "tick"]
        if not left:
            return []
        if given_back := [job.id for job in left if _is_orphaned(job)]:
            with suppress(HeadgateError):
                app.cancel_sync(ids=given_back)
        ids = {job.id for job in left}
        if not before or before - ids:
            before, until = ids, time.monotonic() + REST
        if time.monotonic() > until:
            return [f"after {REST:g} s: {_try(lambda id=job.id: app.explain_sync(id))}" for job in left[:20]]
        time.sleep(0.2)


def _is_orphaned(job: JobInfo) -> bool:
    """A request for a slot that was granted in an answer that never arrived, taken back, and left behind by a process
    that died before it was granted anew: what has started once does not expire, an operator has to cancel it."""
    return job.task.startswith(slots.PREFIX) and job.attempt > 0 and job.state is not JobState.RUNNING


def _look(app: App, place: Place) -> Final:
    final = Final({}, {}, {}, exact=place.exact)
    real = notes.wall() - notes.now()
    page: list[JobInfo] = []
    while page := _page(app, page[-1].id if page else None):
        for job in page:
            final.states[job.id] = str(job.state)
            final.attempts[job.id] = job.attempt
            if job.ended_at is not None:
                final.ended[job.id] = int(job.ended_at.timestamp() * 1e6) * 1000 - real
            if job.state is JobState.CANCELLED:
                final.reasons[job.id] = job.error or ""
            if job.attempt > 1:
                past = _try(app.handle(job.id).info_sync).attempts
                final.outcomes[job.id] = [str(each.outcome) for each in past]
    final.audit = [f"audit: {each}" for each in _try(app.audit_sync).problems]
    final.held = [
        f"{limit.key} is held by {limit.held} and waited for by {limit.waiting}"
        for limit in _try(app.limits_sync)
        if limit.held or limit.waiting
    ]
    return final


def healed(folder: Path) -> list[str]:
    """What workers said that they had to mend: no fault may leave anything that only a recheck would find."""
    return [
        f"recheck: {line.partition(MENDED)[2]}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if MENDED in line
    ]


def _page(app: App, after: str | None) -> list[JobInfo]:
    return _try(lambda: app.jobs_sync(size=PAGE, after=after))


def _try(call: Callable[[], Any]) -> Any:
    """A store that has just come back may need a moment."""
    until = time.monotonic() + REST
    while time.monotonic() < until:
        with suppress(HeadgateError):
            return call()
        time.sleep(0.2)
    return call()
