"""Break one rule at a time, and name the test that notices.

    python -m tests.mutants --engine sqlite [--only TEXT] [--jobs 2] [--list]

Each mutant is made in a copy of the source tree, and the tests of its store run on that until one fails. What survives
is named at the end: a rule that no test defends. So is what was noticed only because time ran out.
"""

from __future__ import annotations

import argparse
import compileall
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

from tests.mutants.herds import HERDS
from tests.mutants.mutant import ROOT, SOURCE, Herd, Mutant

PATIENCE = 150
"""Seconds for one stage of tests."""
PYTEST = [
    "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=30",
]  # fmt: skip


class Failure(NamedTuple):
    """The first test that noticed."""

    test: str
    timed_out: bool

    def __str__(self) -> str:
        return f"{self.test}{' (TIMED OUT)' if self.timed_out else ''}"


class Verdict(NamedTuple):
    """What came of one mutant; `failure` is None if it survives."""

    mutant: Mutant
    failure: Failure | None
    seconds: float


def tests_of(stage: list[str], copy: Path, *options: str) -> list[Failure]:
    """What fails when a stage of tests is run on a copy."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *PYTEST, *stage, *options],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "400"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return [Failure(f"{' '.join(stage)} after {time.monotonic() - began:.0f} s", True)]
    if process.returncode == 0:
        return []
    if process.returncode in (4, 5):
        raise SystemExit(f"{' '.join(stage)} cannot be run:\n{said[-1000:]}")
    found = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - (.*))?$", said, re.MULTILINE)
    return [Failure(test, "Timeout" in why) for test, why in found] or [
        Failure(f"{' '.join(stage)}: code {process.returncode}", False)
    ]


@contextmanager
def copies(number: int) -> Generator[queue.SimpleQueue[Path]]:
    """Copies of the source tree. Their compiled files are checked by content: a mutant may be as long and as old."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-") as folder:
        for each in range(number):
            copy = Path(folder) / str(each)
            shutil.copytree(SOURCE, copy / "headgate", ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            free.put(copy)
        yield free


def judge(mutant: Mutant, stages: list[list[str]], free: queue.SimpleQueue[Path]) -> Verdict:
    """Make a mutant in a free copy, and run stage after stage until a test fails."""
    copy, began = free.get(), time.monotonic()
    whole = mutant.apply(copy / "headgate")
    try:
        failures = (_confirmed(stage, copy) for stage in stages)
        failure = next((each for each in failures if each is not None), None)
    finally:
        (copy / "headgate" / mutant.file).write_text(whole)
        free.put(copy)
    return Verdict(mutant, failure, time.monotonic() - began)


def _confirmed(stage: list[str], copy: Path) -> Failure | None:
    """The first test that fails, and fails again alone: one that is merely moody does not count."""
    moody: list[str] = []
    while failures := tests_of([*stage, *moody], copy, "-x"):
        first = failures[0]
        if "::" not in first.test or tests_of([first.test], copy):
            return first
        moody += ["--deselect", first.test]
    return None


def sound(herd: Herd, free: queue.SimpleQueue[Path]) -> list[list[str]]:
    """The stages without those tests that fail anyway, which are named."""
    copy, stages = free.get(), list[list[str]]()
    for stage in herd.tests:
        failing = tests_of(stage, copy)
        for each in failing:
            print(f"left out, since it fails without any mutant: {each}", flush=True)
        stages.append([*stage, *(word for each in failing for word in ("--deselect", each.test))])
    free.put(copy)
    return stages


def run(name: str, only: str | None, jobs: int) -> list[str]:
    """One herd; returns the survivors."""
    herd = HERDS[name]
    chosen = [each for each in herd.mutants if only is None or only in each.name]
    verdicts: list[Verdict] = []
    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:
        stages = sound(herd, free)
        for verdict in pool.map(lambda mutant: judge(mutant, stages, free), chosen):
            verdicts.append(verdict)
            print(
                f"{name} {len(verdicts)}/{len(chosen)} {verdict.mutant.name}\n"
                f"    {verdict.failure or 'SURVIVES'} ({verdict.seconds:.0f} s)",
                flush=True,
            )
    return _summary(name, verdicts)


def _summary(name: str, verdicts: list[Verdict]) -> list[str]:
    noticed = [each.failure for each in verdicts if each.failure is not None]
    late = [f"{name}: {each.mutant.name}" for each in verdicts if each.failure and each.failure.timed_out]
    survivors = [f"{name}: {each.mutant.name}" for each in verdicts if each.failure is None]
    print(
        f"{name}: {len(verdicts)} mutants, {len(noticed)} noticed ({len(late)} of them by a time-out), "
        f"{len(survivors)} survive"
    )
    for file, number in Counter(each.test.partition("::")[0] for each in noticed).most_common():
        print(f"    {number:3} {file}")
    print(*(f"by a time-out: {each}" for each in late), sep="\n", end="\n" if late else "")
    return survivors


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=[*HERDS, "all"], default="all")
    parser.add_argument("--only", help="those whose file or description has this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="only name them")
    given = parser.parse_args()
    names = list(HERDS) if given.engine == "all" else [given.engine]
    if given.list:
        for name in names:
            print(*(f"{name}: {each.name}" for each in HERDS[name].mutants), sep="\n")
        return 0
    survivors = [each for name in names for each in run(name, given.only, given.jobs)]
    print(*(f"SURVIVES {each}" for each in survivors), sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
