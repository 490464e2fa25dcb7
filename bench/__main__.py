"""`python -m bench`: measure every row, print the table, write one JSON line per result."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

from rich.console import Console

from bench import contest, report
from bench.options import Options, parse
from bench.progress import Progress
from bench.results import Result
from bench.rows import Row

STDOUT = "-"


def main() -> int:
    """0 if all was measured (and, with --check, every target reached)."""
    options = parse()
    progress = Progress(_count(options))
    measured: list[tuple[Row, list[Result]]] = []
    with _output(options.json) as file:
        for row in options.rows:
            results = contest.run(row, options, progress)
            file.writelines(result.line() + "\n" for result in results)
            file.flush()
            measured.append((row, results))
    report.show(measured, options.quick, Console(stderr=True) if options.json == STDOUT else None)
    return _status([result for _, results in measured for result in results], options)


def _count(options: Options) -> int:
    """How many measurements there will be."""
    return sum(
        contest.rounds_of(entry, row, options)
        for row in options.rows
        for entry in contest.entries(row, options)
    )


def _output(target: str) -> AbstractContextManager[TextIO]:
    return nullcontext(sys.stdout) if target == STDOUT else Path(target).open("w", encoding="utf-8")


def _status(results: Sequence[Result], options: Options) -> int:
    failed = any(result.error is not None for result in results)
    missed = any(result.reached is False for result in results)
    return int(failed or (options.check and missed))


if __name__ == "__main__":
    sys.exit(main())
