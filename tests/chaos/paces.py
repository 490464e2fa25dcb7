"""What the judge asks of rates: their pace, what attempts said that they had really spent, and keys that a service had
closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.case import Case, name_of
from tests.chaos.lives import Life
from tests.chaos.notes import of
from tests.chaos.rules import Rate

FAR = 200
"""Starts that are looked at from each one on."""
ROUNDED = 0.02
"""Seconds by which a period may seem shorter: stamps are those of the store's clock."""


def rates_hold(case: Case) -> Iterator[str]:
    """In no time more is spent than the pace allows, by what attempts said in the end."""
    for key, all in case.by_key.items():
        starts = sorted(all, key=lambda life: (life.claimed, life.start))
        if rate := case.windows.get(name_of(key)):
            yield from _window(case, key, starts, rate)
        if rate := case.buckets.get(name_of(key)):
            yield from _bucket(case, key, starts, rate)


def _window(case: Case, key: str, starts: Sequence[Life], rate: Rate) -> Iterator[str]:
    for at, first in enumerate(starts):
        for until, spent in _from(case, key, starts[at : at + FAR]):
            length = (until - first.claimed) / 1e9
            if length >= rate.per - ROUNDED:
                break
            if spent > rate.most:
                yield f"{spent} of {key} in {length:.3f} s, at {first.start}; {rate.most} may per {rate.per:g} s"
                break


def _bucket(case: Case, key: str, starts: Sequence[Life], rate: Rate) -> Iterator[str]:
    for at, first in enumerate(starts):
        for until, spent in _from(case, key, starts[at : at + FAR]):
            length = (until - first.claimed) / 1e9
            if spent > rate.burst + length * rate.most / rate.per + 1:
                yield f"{spent} of {key} in {length:.3f} s, at {first.start}"
                break


def _from(case: Case, key: str, starts: Sequence[Life]) -> Iterator[tuple[int, int]]:
    """With each further start: until when that was at the latest, and what had been spent by then. What was spent
    beyond an estimate is known to starts that were asked for after the store had heard of it."""
    until, sure = 0, 0
    debts: list[tuple[int, int]] = []
    for life in starts:
        until = max(until, life.start)
        estimate, at = life.units(key), (life.job, life.attempt)
        least = min(estimate, case.spent.get(at, estimate))
        yield until, sure + least + sum(debt for heard, debt in debts if heard < life.sent)
        sure += least
        if at in case.heard and case.heard[at][1] > estimate:
            debts.append((case.heard[at][0], case.heard[at][1] - estimate))


def closed_keys_rest(case: Case) -> Iterator[str]:
    """Once the store has heard that an attempt wants its key closed, nothing that was asked for later starts on it
    before it opens."""
    attempts = {(life.job, life.attempt): life for life in case.lives}
    for each in of(case.notes, "closed"):
        told = attempts.get((each["job"], each["attempt"]))
        for key in told.keys if told else ():
            for life in case.by_key[key]:
                if life.sent > each["t"] and life.start < each["sent"] + each["seconds"] * 1e9:
                    yield f"job {life.job} started on {key}, which {each['job']} had closed for {each['seconds']:g} s"
