"""The hunt for the test that notices a mutant: the one that did the last time, those that noticed others, all."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from tests.mutants.likely import likely_first
from tests.mutants.mutant import Herd, Mutant
from tests.mutants.noticed import Failure, Noticed
from tests.mutants.session import CannotCollect, Session

LIMIT = 10.0
"""Seconds for one test, on a machine that has nothing else to do."""
LIKELY = 30
"""Tests of each stage that are asked before all others of any."""
LATE = 3
"""Tests that time out before that counts as noticing: one that fails by an assertion is looked for behind them."""


class Verdict(NamedTuple):
    """What came of one mutant; `failure` is None if it survives."""

    mutant: Mutant
    failure: Failure | None
    seconds: float


class Hunt:
    """Through one herd, on copies that are free. A test counts if it fails on the mutant twice, and passes without."""

    def __init__(self, herd: Herd, noticed: Noticed, free: queue.SimpleQueue[Path]) -> None:
        self._herd = herd
        self._noticed = noticed
        self._free = free
        self._lock = threading.Lock()
        self._sessions: dict[tuple[Path, int], Session] = {}
        self._sound: dict[str, bool] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def meet(self, mutant: Mutant, stages: int | None) -> Verdict:
        """Make a mutant in a free copy and look for the test that notices it."""
        began, late, failure = time.monotonic(), list[Failure](), None
        numbers = range(len(self._herd.tests[:stages]))
        asked: dict[int, set[str]] = {number: set() for number in numbers}
        copy = self._free.get()
        try:
            for number, most in self._plan(numbers, mutant):
                failure = failure or self._search(mutant, copy, number, most, asked[number], late)
        finally:
            self._free.put(copy)
        failure = failure or (late[0] if late else None)
        self._noticed.keep(mutant, failure)
        return Verdict(mutant, failure, time.monotonic() - began)

    def _plan(self, numbers: Sequence[int], mutant: Mutant) -> list[tuple[int, int | None]]:
        """Which stage is asked how much: likely tests of each, but for the last one, which takes long; then all. What
        noticed the last time comes first."""
        known = self._noticed.by(mutant)
        has = {number: known is not None and self._has(number, known) for number in numbers}
        order = sorted(numbers, key=lambda number: not has[number])
        quick = [(number, LIKELY) for number in order if has[number] or number < numbers[-1]]
        return [*quick, *((number, None) for number in order)]

    def _has(self, number: int, failure: Failure) -> bool:
        """Whether a stage has a test."""
        folders = [word for word in self._herd.tests[number] if word.startswith("tests/")]
        return any(failure.test.startswith(folder) for folder in folders)

    def _search(
        self, mutant: Mutant, copy: Path, number: int, most: int | None, asked: set[str], late: list[Failure]
    ) -> Failure | None:
        """Through one stage, or through those of its tests that are most likely to tell: for a mutant that is imported in
        a session of their files alone."""
        tests = likely_first(self._kept(copy, number).tests, mutant, self._noticed)[:most]
        files = [test.partition("::")[0] for test in tests] if mutant.imported and most else []
        return self._in(mutant, copy, number, tests, asked, late, list(dict.fromkeys(files)))

    def _in(
        self, mutant: Mutant, copy: Path, number: int, tests: Sequence[str], asked: set[str], late: list[Failure],
        files: Sequence[str] = (),
    ) -> Failure | None:  # fmt: skip
        """By tests of a stage, in the files where they are; each is asked once."""
        while True:
            with self._made(mutant, copy):
                found = self._fails(mutant, copy, number, tests, asked, late, files)
            if found is None or self._passes(found.test, copy, number):
                return found
            print(f"does not count, since it fails without any mutant: {found.test}", flush=True)
            late[:] = [each for each in late if each != found]

    def _fails(
        self, mutant: Mutant, copy: Path, number: int, tests: Sequence[str], asked: set[str], late: list[Failure],
        files: Sequence[str],
    ) -> Failure | None:  # fmt: skip
        """The next test that fails, and fails again alone."""
        try:
            with self._session(mutant, copy, number, files) as session:
                while len(late) < LATE and (left := [test for test in tests if test not in asked]):
                    ran = session.run(left, _limit(), LATE - len(late))
                    asked.update(each.test for each in ran)
                    for each in ran:
                        if each.failed and (again := session.run([each.test], _limit()))[-1].failed:
                            failure = Failure(each.test, again[-1].timed_out)
                            if not failure.timed_out:
                                return failure
                            late.append(failure)
                return late[0] if len(late) >= LATE else None
        except CannotCollect as error:
            return Failure(str(error))

    def _passes(self, test: str, copy: Path, number: int) -> bool:
        """Without any mutant; asked once."""
        if "::" not in test:
            return True
        with self._lock:
            if test in self._sound:
                return self._sound[test]
        stage = next((n for n in range(len(self._herd.tests)) if self._has(n, Failure(test))), number)
        ran = self._kept(copy, stage).run([test], _limit())
        with self._lock:
            self._sound[test] = not ran[-1].failed
            return self._sound[test]

    @contextmanager
    def _session(self, mutant: Mutant, copy: Path, number: int, files: Sequence[str]) -> Generator[Session]:
        """One that has not read what the mutant changes."""
        if not mutant.imported:
            yield self._kept(copy, number)
            return
        stage = self._herd.tests[number]
        options = stage[max(n for n, word in enumerate(stage) if word.startswith("tests/")) + 1 :]
        with Session(copy, [*files, *options] if files else stage, self._herd.server) as session:
            yield session

    def _kept(self, copy: Path, number: int) -> Session:
        """A session without any mutant of Python: one per copy and stage."""
        if (copy, number) not in self._sessions:
            session = Session(copy, self._herd.tests[number], self._herd.server)
            with self._lock:
                self._sessions[copy, number] = self._open.enter_context(session)
        return self._sessions[copy, number]

    @contextmanager
    def _made(self, mutant: Mutant, copy: Path) -> Generator[None]:
        whole = mutant.apply(copy / "headgate")
        try:
            yield
        finally:
            (copy / "headgate" / mutant.file).write_text(whole)


def _limit() -> float:
    """Longer while the machine has more to do than it can."""
    return LIMIT * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 2)
