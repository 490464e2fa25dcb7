"""The hunt for the test that notices a mutant: the one that did the last time, those that noticed others, all."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutant import Herd, Mutant
from tests.mutants.noticed import Noticed
from tests.mutants.trying import PATIENCE, Failure, NoSuchTest, failures

ANYTHING = 1800.0
"""Seconds for all tests of a stage without any mutant."""
LATE = 3
"""Tests that time out before that counts as noticing: one that fails by an assertion is looked for behind them."""


class Verdict(NamedTuple):
    """What came of one mutant; `failure` is None if it survives."""

    mutant: Mutant
    failure: Failure | None
    seconds: float


class Stage(NamedTuple):
    """Tests that pass without any mutant, and how long they may take on one."""

    tests: list[str]
    patience: float


class Hunt:
    """Through one herd, on copies that are free."""

    def __init__(self, herd: Herd, noticed: Noticed, free: queue.SimpleQueue[Path]) -> None:
        self._herd = herd
        self._noticed = noticed
        self._free = free
        self._lock = threading.Lock()
        self._stages: dict[int, Stage] = {}

    def begin(self) -> None:
        """The tests that noticed mutants must exist, and pass without any."""
        with self._copy() as copy:
            while tests := self._noticed.tests():
                try:
                    failing = [each.test for each in failures(tests, copy, patience=ANYTHING)]
                except NoSuchTest as error:
                    failing = list(error.tests)
                if not failing:
                    return
                print(
                    *(f"not asked first, since it fails without any mutant: {test}" for test in failing),
                    sep="\n",
                )
                self._noticed.forget(failing)

    def meet(self, mutant: Mutant, stages: int | None) -> Verdict:
        """Make a mutant in a free copy and look for the test that notices it."""
        began = time.monotonic()
        failure = self._quickly(mutant)
        for number in range(len(self._herd.tests[:stages])):
            if failure is not None:
                break
            stage = self._stage(number)
            with self._made(mutant) as copy:
                failure = _confirmed(stage.tests, copy, stage.patience)
        self._noticed.keep(mutant, failure)
        return Verdict(mutant, failure, time.monotonic() - began)

    def _quickly(self, mutant: Mutant) -> Failure | None:
        """By the tests that noticed mutants before. The one that noticed this mutant has failed on it twice then; what
        is new must fail twice now."""
        known, others = self._noticed.by(mutant), self._noticed.tests(mutant)
        with self._made(mutant) as copy:
            if known is not None and "::" in known.test:
                try:
                    found = failures([known.test], copy)
                except NoSuchTest:
                    found = []
                if found:
                    return found[0]
            others = [test for test in others if known is None or test != known.test]
            return _confirmed(others, copy, PATIENCE) if others else None

    def _stage(self, number: int) -> Stage:
        """A stage without those tests that fail anyway, which are named."""
        with self._lock:
            if number not in self._stages:
                tests, began = self._herd.tests[number], time.monotonic()
                with self._copy() as copy:
                    failing = failures(tests, copy, patience=ANYTHING)
                taken = time.monotonic() - began
                for each in failing:
                    print(f"left out, since it fails without any mutant: {each}", flush=True)
                left_out = [word for each in failing for word in ("--deselect", each.test)]
                self._stages[number] = Stage([*tests, *left_out], max(PATIENCE, 4 * taken))
            return self._stages[number]

    @contextmanager
    def _copy(self) -> Generator[Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)

    @contextmanager
    def _made(self, mutant: Mutant) -> Generator[Path]:
        with self._copy() as copy:
            whole = mutant.apply(copy / "headgate")
            try:
                yield copy
            finally:
                (copy / "headgate" / mutant.file).write_text(whole)


def _confirmed(tests: Sequence[str], copy: Path, patience: float) -> Failure | None:
    """The first test that fails, and fails again alone: one that is merely moody does not count. One that fails by an
    assertion is preferred to one that does not end."""
    left, late = list(tests), list[Failure]()
    while left and len(late) < LATE and (found := failures(left, copy, "-x", patience=patience)):
        first = found[0]
        if "::" not in first.test:
            return late[0] if late else first
        again = failures([first.test], copy)
        if again and not again[0].timed_out:
            return again[0]
        late += again
        if first.test in left:
            left.remove(first.test)
        else:
            left += ["--deselect", first.test]
    return late[0] if late else None
