"""What is going on, on standard error: a spinner on a terminal, and a line for everything that has been measured."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

from bench.environments import is_ready
from bench.results import LOAD_BEFORE
from bench.rows import Entry, Row
from bench.systems import SYSTEMS

BUSY = 0.5  # a load that one benchmark process beside it would feel


class Step:
    """One measurement under way."""

    def __init__(self) -> None:
        self.words = "interrupted"

    def say(self, words: str) -> None:
        """How it ended."""
        self.words = words


class Progress:
    """Counts the measurements of a run."""

    def __init__(self, total: int) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._total = total
        self._done = 0
        if LOAD_BEFORE is not None and LOAD_BEFORE > BUSY:
            self.console.print(f"The machine is busy already (load {LOAD_BEFORE}): expect figures to vary.")

    @contextmanager
    def step(self, row: Row, entry: Entry, turn: int) -> Generator[Step]:
        """Show that a measurement runs, then how it ended."""
        self._done += 1
        label = f"[{self._done}/{self._total}] {row.name:<13} {entry.name:<19} {turn + 1}"
        doing = "" if is_ready(SYSTEMS[entry.system]) else " (installing it first)"
        step = Step()
        with self.console.status(f"{label}{doing} …".replace("[", "\\[", 1)):
            yield step
        self.console.print(f"{label}  {step.words}", markup=False, soft_wrap=True)
