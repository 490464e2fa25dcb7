"""Break one rule at a time, and name the test that notices.

    python -m tests.mutants --engine sqlite [--only TEXT] [--list]

Each mutant is made in a copy of the source tree, and the tests of its store run on that until one fails. What survives
is named at the end: a rule that no test defends.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.herds import HERDS
from tests.mutants.mutant import ROOT, SOURCE, Herd, Mutant

PATIENCE = 240
"""Seconds for one stage of tests; a mutant that makes them hang is noticed, too."""
PYTEST = ["-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--timeout=40"]


def caught_by(mutant: Mutant, herd: Herd, copy: Path) -> str | None:
    """The first test that fails; None if all pass."""
    whole = mutant.apply(copy / "headgate")
    try:
        for stage in herd.tests:
            if (name := _first_failure(stage, copy)) is not None:
                return name
        return None
    finally:
        (copy / "headgate" / mutant.file).write_text(whole)


def _first_failure(stage: list[str], copy: Path) -> str | None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, *PYTEST, *stage],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return f"no answer from {' '.join(stage)}"
    if process.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+.*?)(?: - .*)?$", said, re.MULTILINE)
    if process.returncode in (4, 5):
        raise SystemExit(f"{' '.join(stage)} cannot be run:\n{said[-1000:]}")
    return found[1] if found else f"{' '.join(stage)} ended with code {process.returncode}"


def run(name: str, only: str | None) -> list[str]:
    """One herd; returns the survivors."""
    herd = HERDS[name]
    chosen = [each for each in herd.mutants if only is None or only in f"{each.file} {each.breaks}"]
    survivors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-") as folder:
        copy = Path(folder)
        shutil.copytree(SOURCE, copy / "headgate", ignore=shutil.ignore_patterns("__pycache__"))
        for stage in herd.tests:
            if (failing := _first_failure(stage, copy)) is not None:
                raise SystemExit(f"{name}: {failing} fails without any mutant; mend that first")
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            test = caught_by(mutant, herd, copy)
            verdict = "SURVIVES" if test is None else test
            print(
                f"{name} {number}/{len(chosen)} {mutant.file}: {mutant.breaks}\n"
                f"    {verdict} ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            if test is None:
                survivors.append(f"{name}: {mutant.file}: {mutant.breaks}")
    print(f"{name}: {len(chosen)} mutants, {len(chosen) - len(survivors)} noticed, {len(survivors)} survive")
    return survivors


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=[*HERDS, "all"], default="all")
    parser.add_argument("--only", help="those whose file or description has this text")
    parser.add_argument("--list", action="store_true", help="only name them")
    given = parser.parse_args()
    names = list(HERDS) if given.engine == "all" else [given.engine]
    if given.list:
        for name in names:
            print(*(f"{name}: {each.file}: {each.breaks}" for each in HERDS[name].mutants), sep="\n")
        return 0
    survivors = [each for name in names for each in run(name, given.only)]
    print(*survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
