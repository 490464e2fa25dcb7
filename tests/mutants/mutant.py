"""A mutant: one rule broken in one place, by exchanging a text that occurs once in a file of the source tree."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headgate"


class Mutant(NamedTuple):
    """`file` is relative to src/headgate; `breaks` says in words what is no longer so."""

    file: str
    find: str
    replace: str
    breaks: str

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.file}: {self.breaks}"

    @property
    def imported(self) -> bool:
        """Whether it is read when tests are collected, and not when a store is opened."""
        return self.file.endswith(".py") or self.file.startswith("engine/sqlite/")

    @property
    def text(self) -> str:
        """The file as it is."""
        return (SOURCE / self.file).read_text()

    def apply(self, source: Path) -> str:
        """Break a copy of the source tree; returns the text that mends it."""
        whole = (source / self.file).read_text()
        assert whole.count(self.find) == 1, (
            f"{self.file}: {self.find!r} occurs {whole.count(self.find)} times"
        )
        (source / self.file).write_text(whole.replace(self.find, self.replace))
        return whole


class Herd(NamedTuple):
    """The mutants of one store, and the tests that should notice them: what is quickest and notices most comes first; `server` is
    the one that they share."""

    mutants: list[Mutant]
    tests: list[list[str]]
    server: str = "none"
