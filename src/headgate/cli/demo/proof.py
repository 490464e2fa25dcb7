"""What the journal proves. Every claim is computed from what the jobs wrote down, not from what Headgate believes.

A run lasts from its first line to its last; a run that was cut short by the kill lasts until the killed process was
gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from headgate.cli.demo.journal import Entry
from headgate.cli.demo.workload import API_SLOTS, LEASE, MAIL_PERIOD, MAILS

SLACK = 3.0
"""Seconds after the end of a lease by which others have noticed, on a machine that is busy."""


class Claim(msgspec.Struct, frozen=True):
    """One thing that the demonstration claims, and what was found."""

    claim: str
    found: str
    holds: bool


class Run(msgspec.Struct, frozen=True):
    """One run of a job. `cut` by the kill, or ended by itself; `ended` None if neither, which must not be."""

    first: Entry
    ended: float | None
    how: Literal["end", "fail", "cut", "open"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known at the end: what the journal holds, which process was killed when, and what the store says."""

    entries: Sequence[Entry]
    ids: Sequence[str]
    kills: Mapping[int, float]
    states: Mapping[str, str]
    problems: Sequence[str]


def prove(evidence: Evidence) -> list[Claim]:
    """Every claim."""
    runs = runs_of(evidence)
    return [
        _customers(runs),
        _api(runs),
        _mails(runs),
        _lost(evidence, runs),
        _retried(runs),
        _repeated(evidence, runs),
        _recovered(runs),
        _audit(evidence),
    ]


def runs_of(evidence: Evidence) -> list[Run]:
    """The journal's lines, put together."""
    starts: dict[tuple[str, int], Entry] = {}
    ends: dict[tuple[str, int], Entry] = {}
    for entry in evidence.entries:
        (starts if entry.what == "start" else ends)[entry.job, entry.attempt] = entry
    return [_run(first, ends.get(key), evidence.kills.get(first.pid)) for key, first in starts.items()]


def _run(first: Entry, last: Entry | None, killed: float | None) -> Run:
    if last is not None:
        return Run(first, last.at, "fail" if last.what == "fail" else "end")
    return Run(first, killed, "open" if killed is None else "cut")


def largest_overlap(runs: Iterable[Run]) -> int:
    """How many ran at once, at most. At the same instant an end comes before a start."""
    edges = [(run.first.at, 1) for run in runs]
    edges += [(run.ended, -1) for run in runs if run.ended is not None]
    most = now = 0
    for _, step in sorted(edges):
        now += step
        most = max(most, now)
    return most


def most_starts(times: Sequence[float], period: float) -> int:
    """How many starts any span of one period holds, at most."""
    ordered, most, low = sorted(times), 0, 0
    for high, at in enumerate(ordered):
        while at - ordered[low] >= period:
            low += 1
        most = max(most, high - low + 1)
    return most


def _customers(runs: list[Run]) -> Claim:
    customers: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        customers[run.first.customer].append(run)
    most = max((largest_overlap(row) for row in customers.values()), default=0)
    return Claim(
        "one job at a time per customer", f"at most {most} at once, {len(customers)} customers", most == 1
    )


def _api(runs: list[Run]) -> Claim:
    most = largest_overlap([run for run in runs if run.first.task == "sync_orders"])
    found = f"{most} at the busiest moment" + ("" if most >= API_SLOTS else f"; {API_SLOTS} were to be used")
    return Claim(f"at most {API_SLOTS} at once on the API", found, most == API_SLOTS)


def _mails(runs: list[Run]) -> Claim:
    times = [run.first.claimed for run in runs if run.first.task == "send_invoice"]
    most = most_starts(times, MAIL_PERIOD)
    found = f"{most} in the busiest, {len(times)} in all"
    return Claim(f"at most {MAILS} mails in any {MAIL_PERIOD:g} s", found, 0 < most <= MAILS)


def _lost(evidence: Evidence, runs: list[Run]) -> Claim:
    finished = {run.first.job for run in runs if run.how == "end"}
    succeeded = {id for id, state in evidence.states.items() if state == "succeeded"}
    lost = [id for id in evidence.ids if id not in finished or id not in succeeded]
    found = f"{len(evidence.ids) - len(lost)} of {len(evidence.ids)} ran to their end"
    return Claim("no job is lost", found, not lost and bool(evidence.ids))


def _retried(runs: list[Run]) -> Claim:
    failed = {run.first.job for run in runs if run.how == "fail"}
    mended = failed & {run.first.job for run in runs if run.how == "end"}
    found = f"{len(failed)} failed, {len(mended)} of them succeeded later"
    return Claim("what fails is tried again", found, bool(failed) and failed == mended)


def _repeated(evidence: Evidence, runs: list[Run]) -> Claim:
    """A job needs one run that ends, and one more for each that failed; all others are repeats."""
    extra = [run for run in runs if run.how in ("cut", "open")]
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.how == "end":
            by_job[run.first.job].append(run)
    for ended in by_job.values():
        extra += sorted(ended, key=lambda run: run.first.at)[:-1]
    by_kill = [run for run in extra if run.first.pid in evidence.kills]
    found = f"{len(by_kill)} repeated by the kill, {len(extra) - len(by_kill)} others"
    return Claim("only what the kill cut off ran twice", found, len(extra) == len(by_kill) > 0)


def _recovered(runs: list[Run]) -> Claim:
    """A customer whose job was cut off goes on when the slot is free again: with that job or with another."""
    waits = [
        later.first.at - run.ended
        for run in runs
        if run.how == "cut" and run.ended is not None
        for later in runs
        if later.first.customer == run.first.customer and later.first.at > run.ended
    ]
    first = min(waits, default=float("inf"))
    found = f"the first one after {first:.1f} s (lease {LEASE:g} s)"
    return Claim("a dead worker's slots come back", found, first <= LEASE + SLACK)


def _audit(evidence: Evidence) -> Claim:
    found = "; ".join(evidence.problems) or "no problems"
    return Claim("the store fits together (audit)", found, not evidence.problems)
