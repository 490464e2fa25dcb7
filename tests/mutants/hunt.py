"""The hunt for the test that notices a mutant: the one that did the last time, those that noticed others, all."""

from __future__ import annotations

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
"""Seconds for one test."""
LIKELY = 40
"""Tests that are asked first of a mutant that is imported: collecting all takes longer than running these."""
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
        began, late = time.monotonic(), list[Failure]()
        known = self._noticed.by(mutant)
        order = sorted(range(len(self._herd.tests[:stages])), key=lambda n: not self._has(n, known))
        copy = self._free.get()
        try:
            for number in order:
                failure = self._search(mutant, copy, number, late)
                if failure is not None:
                    break
            else:
                failure = late[0] if late else None
        finally:
            self._free.put(copy)
        self._noticed.keep(mutant, failure)
        return Verdict(mutant, failure, time.monotonic() - began)

    def _has(self, number: int, known: Failure | None) -> bool:
        """Whether a stage has the test that noticed the last time."""
        folders = [word for word in self._herd.tests[number] if word.startswith("tests/")]
        return known is not None and any(known.test.startswith(folder) for folder in folders)

    def _search(self, mutant: Mutant, copy: Path, number: int, late: list[Failure]) -> Failure | None:
        """Through one stage: what is most likely to tell comes first, for a mutant that is imported in a smaller session."""
        tests = likely_first(self._kept(copy, number).tests, mutant, self._noticed)
        skipped = set[str]()
        if mutant.imported:
            first = tests[:LIKELY]
            files = list(dict.fromkeys(test.partition("::")[0] for test in first))
            if failure := self._in(mutant, copy, number, first, skipped, late, files):
                return failure
        return self._in(mutant, copy, number, tests, skipped, late)

    def _in(
        self, mutant: Mutant, copy: Path, number: int, tests: Sequence[str], skipped: set[str], late: list[Failure],
        files: Sequence[str] = (),
    ) -> Failure | None:  # fmt: skip
        """By tests of a stage, in the files where they are; those that were asked are skipped from then on."""
        while True:
            with self._made(mutant, copy):
                found = self._fails(mutant, copy, number, tests, skipped, late, files)
            if found is None or self._passes(found.test, copy, number):
                return found
            print(f"does not count, since it fails without any mutant: {found.test}", flush=True)
            late[:] = [each for each in late if each != found]

    def _fails(
        self, mutant: Mutant, copy: Path, number: int, tests: Sequence[str], skipped: set[str], late: list[Failure],
        files: Sequence[str],
    ) -> Failure | None:  # fmt: skip
        """The next test that fails, and fails again alone."""
        try:
            with self._session(mutant, copy, number, files) as session:
                while len(late) < LATE and (left := [test for test in tests if test not in skipped]):
                    ran = session.run(left, LIMIT, LATE - len(late))
                    skipped.update(each.test for each in ran)
                    for each in ran:
                        if each.failed and (again := session.run([each.test], LIMIT))[-1].failed:
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
        ran = self._kept(copy, stage).run([test], 3 * LIMIT)
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
