"""Which test noticed which mutant, by store: it is asked first the next time.

Nothing is believed of it: a mutant counts as noticed when a test has failed on it in this run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.mutants.mutant import Mutant


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The test that noticed."""

    test: str
    timed_out: bool = False

    def __str__(self) -> str:
        return f"{self.test}{' (TIMED OUT)' if self.timed_out else ''}"


FOLDER = Path(__file__).parent / "noticed"


class Noticed:
    """The failures of one herd, kept in a file of its own."""

    def __init__(self, name: str, mutants: Sequence[Mutant]) -> None:
        self._file = FOLDER / f"{name}.json"
        self._mutants = {mutant.name: mutant for mutant in mutants}
        self._by_mutant: dict[str, Failure] = {}
        if self._file.exists():
            known = msgspec.json.decode(self._file.read_bytes(), type=dict[str, Failure])
            self._by_mutant = {name: known[name] for name in self._mutants if name in known}

    def by(self, mutant: Mutant) -> Failure | None:
        """What noticed a mutant the last time, by an assertion."""
        known = self._by_mutant.get(mutant.name)
        return None if known is None or known.timed_out else known

    def counts(self, about: Mutant) -> tuple[Counter[str], Counter[str]]:
        """How many mutants each test noticed by an assertion: of all, of those in the same file."""
        near, all = Counter[str](), Counter[str]()
        for name, failure in self._by_mutant.items():
            if not failure.timed_out:
                all[failure.test] += 1
                near[failure.test] += self._mutants[name].file == about.file
        return all, near

    def keep(self, mutant: Mutant, failure: Failure | None) -> None:
        """At once: a run takes long, and may be ended."""
        self._by_mutant.pop(mutant.name, None)
        if failure is not None:
            self._by_mutant[mutant.name] = failure
        FOLDER.mkdir(exist_ok=True)
        whole = msgspec.json.format(msgspec.json.encode(dict(sorted(self._by_mutant.items()))), indent=1)
        making = self._file.with_suffix(".tmp")
        making.write_bytes(whole + b"\n")
        os.replace(making, self._file)
