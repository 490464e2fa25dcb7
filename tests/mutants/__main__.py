"""Break one rule at a time, and name the test that notices.

    python -m tests.mutants --engine sqlite [--only TEXT …] [--jobs 2] [--stages 1] [--list]

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
from tests.mutants.mutant import ROOT, SOURCE, Mutant

PATIENCE = 150
"""Seconds for one stage of tests."""
PYTEST = [
    "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=10",
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
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "400"},
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
    """Copies of source and tests, which may change meanwhile. Compiled files are checked by content: a mutant may be
    as long and as old as what it replaces."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-") as folder:
        for each in range(number):
            copy = Path(folder) / str(each)
            for source in (SOURCE, ROOT / "tests"):
                shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(ROOT / "pyproject.toml", copy)
            for name in ("bench", "docs", "examples", "README.md"):
                (copy / name).symlink_to(ROOT / name)
            compileall.compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            free.put(copy)
        yield free


def judge(mutant: Mutant, stage: list[str], free: queue.SimpleQueue[Path]) -> Verdict:
    """Make a mutant in a free copy, and run a stage of tests until one fails."""
    copy, began = free.get(), time.monotonic()
    whole = mutant.apply(copy / "headgate")
    try:
        failure = _confirmed(stage, copy)
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


def sound(stage: list[str], free: queue.SimpleQueue[Path]) -> list[str]:
    """A stage without those tests that fail anyway, which are named."""
    copy = free.get()
    failing = tests_of(stage, copy)
    free.put(copy)
    for each in failing:
        print(f"left out, since it fails without any mutant: {each}", flush=True)
    return [*stage, *(word for each in failing for word in ("--deselect", each.test))]


def run(name: str, only: list[str], jobs: int, stages: int | None) -> list[str]:
    """One herd; returns the survivors. What survives a stage meets the next one, which takes longer."""
    herd = HERDS[name]
    chosen = [each for each in herd.mutants if not only or any(text in each.name for text in only)]
    noticed: list[Verdict] = []
    left = chosen
    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:
        for number, tests in enumerate(herd.tests[:stages], 1):
            stage = sound(tests, free)
            verdicts: list[Verdict] = []
            for verdict in pool.map(lambda mutant, stage=stage: judge(mutant, stage, free), left):
                verdicts.append(verdict)
                print(
                    f"{name} stage {number}, {len(verdicts)}/{len(left)} {verdict.mutant.name}\n"
                    f"    {verdict.failure or 'not noticed'} ({verdict.seconds:.0f} s)",
                    flush=True,
                )
            noticed += [each for each in verdicts if each.failure is not None]
            left = [each.mutant for each in verdicts if each.failure is None]
            if not left:
                break
    _summary(name, noticed, len(left))
    return [f"{name}: {each.name}" for each in left]


def _summary(name: str, noticed: list[Verdict], survivors: int) -> None:
    tests = [each.failure for each in noticed if each.failure is not None]
    late = [f"{name}: {each.mutant.name}" for each in noticed if each.failure and each.failure.timed_out]
    print(
        f"{name}: {len(noticed) + survivors} mutants, {len(noticed)} noticed ({len(late)} of them by a time-out), "
        f"{survivors} survive"
    )
    for file, number in Counter(each.test.partition("::")[0] for each in tests).most_common():
        print(f"    {number:3} {file}")
    for each in late:
        print(f"by a time-out: {each}")


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=[*HERDS, "all"], default="all")
    parser.add_argument(
        "--only", nargs="*", default=[], help="those whose file or description has such a text"
    )
    parser.add_argument("--stages", type=int, help="how many stages of tests a survivor meets; otherwise all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="only name them")
    given = parser.parse_args()
    names = list(HERDS) if given.engine == "all" else [given.engine]
    if given.list:
        for name in names:
            print(*(f"{name}: {each.name}" for each in HERDS[name].mutants), sep="\n")
        return 0
    survivors = [each for name in names for each in run(name, given.only, given.jobs, given.stages)]
    print(*(f"SURVIVES {each}" for each in survivors), sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
