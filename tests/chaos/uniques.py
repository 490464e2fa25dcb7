"""What the judge asks of unique jobs that others of their name update, and of names that a start keeps for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos import rules
from tests.chaos.case import NEVER, Case
from tests.chaos.crowds import CLOCKS
from tests.chaos.lives import Life
from tests.chaos.notes import of


def the_last_word_runs(case: Case) -> Iterator[str]:
    """A job runs with what the last update brought that was acknowledged before it started, and was put off no longer
    than it may be."""
    moved = (
        case.asked("restart").keys() | case.asked("expedite").keys()
    )  # these are due when that was asked for
    asked, acked = case.first_asked, dict[str, int]()
    updates: defaultdict[str, list[str]] = defaultdict(list)
    for each in of(case.notes, "acked"):
        for job in each.get("jobs", []):
            if job.get("version"):
                acked.setdefault(job["version"], each["t"])
                updates[job["id"]].append(job["version"])
    for id, ran in case.by_job.items():
        version = ran[0].said.get("version")
        if version is None:
            continue
        for newer in updates[id]:
            if acked.get(version, NEVER) < asked[newer]:
                yield f"job {id} ran as {version}, and {newer} was stored later"
        if ran[0].attempt == 1 and id not in moved and ran[0].said["put_off"] > rules.AT_MOST + 0.001:
            yield f"job {id} was put off by {ran[0].said['put_off']} s, {rules.AT_MOST:g} may be"


def starts_keep_their_name(case: Case) -> Iterator[str]:
    """Of two jobs with one name that a start keeps, the second starts no earlier than that time after the first."""
    steered = case.asked("restart").keys() | case.asked("delete").keys()
    by_name: defaultdict[str, list[Life]] = defaultdict(list)
    for id, ran in case.by_job.items():
        if ran[0].said.get("greets") and ran[0].attempt == 1 and id not in steered:
            by_name[ran[0].said["greets"]].append(ran[0])
    for name, starts in by_name.items():
        for before, after in pairwise(sorted(starts, key=lambda life: life.claimed)):
            apart = after.start - before.claimed + CLOCKS
            if apart < rules.ONCE_IN * 1e9:
                yield f"jobs {before.job} and {after.job} of {name} started within {apart / 1e9:.3f} s"
