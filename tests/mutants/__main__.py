"""Break one rule at a time, and name the test that notices.

    python -m tests.mutants --engine sqlite [--only TEXT …] [--jobs 2] [--stages 1] [--list]

Each mutant is made in a copy of the source tree, and tests run on that until one fails: first the one that noticed it
the last time (`noticed/`), then those that noticed others, then all tests of its store. What survives is named at the
end: a rule that no test defends. So is what was noticed only because time ran out.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.mutants.copies import copies
from tests.mutants.herds import HERDS
from tests.mutants.hunt import Hunt, Verdict
from tests.mutants.noticed import Noticed


def run(name: str, only: list[str], jobs: int, stages: int | None) -> list[str]:
    """One herd; returns the survivors."""
    began, herd = time.monotonic(), HERDS[name]
    chosen = [each for each in herd.mutants if not only or any(text in each.name for text in only)]
    verdicts: list[Verdict] = []
    with (
        copies(jobs) as free,
        Hunt(herd, Noticed(name, herd.mutants), free) as hunt,
        ThreadPoolExecutor(jobs) as pool,
    ):
        for done in as_completed([pool.submit(hunt.meet, mutant, stages) for mutant in chosen]):
            verdict = done.result()
            verdicts.append(verdict)
            print(
                f"{name} {len(verdicts)}/{len(chosen)} {verdict.mutant.name}\n"
                f"    {verdict.failure or 'not noticed'} ({verdict.seconds:.0f} s)",
                flush=True,
            )
    _summary(name, verdicts, time.monotonic() - began)
    return [f"{name}: {each.mutant.name}" for each in verdicts if each.failure is None]


def _summary(name: str, verdicts: Sequence[Verdict], seconds: float) -> None:
    tests = [each.failure for each in verdicts if each.failure is not None]
    late = [f"{name}: {each.mutant.name}" for each in verdicts if each.failure and each.failure.timed_out]
    print(
        f"{name}: {len(verdicts)} mutants, {len(tests)} noticed ({len(late)} of them by a time-out), "
        f"{len(verdicts) - len(tests)} survive; {seconds / 60:.0f} min"
    )
    for file, number in Counter(each.test.partition("::")[0] for each in tests).most_common():
        print(f"    {number:3} {file}")
    for each in late:
        print(f"by a time-out: {each}")


def main() -> int:
    """The program."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # sessions and their servers end with it
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
