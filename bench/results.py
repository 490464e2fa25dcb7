"""The record of a measurement: one JSON line for each row and system."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.checks import Verdict
from bench.figures import Figures

WORST = ("overlap",)


@dataclass
class Result:
    """What was measured on one system for one row: medians over `rounds`, or an `error` that says why not."""

    row: str
    system: str
    engine: str
    params: Mapping[str, Any]
    quick: bool
    decides: bool = True
    rounds: list[Figures] = field(default_factory=list[Figures])
    figures: Figures = field(default_factory=dict[str, Any])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    error: str | None = None

    @property
    def reached(self) -> bool | None:
        """True if every check holds, False if one does not, None if there is nothing to tell."""
        outcomes = [verdict.reached for verdict in self.verdicts]
        if self.error is not None or False in outcomes:
            return False
        return None if not outcomes or None in outcomes else True

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self) | {"reached": self.reached} | surroundings(), ensure_ascii=False)


def combine(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure; of an overlap the largest, because once is too often."""
    return {name: _combine(name, [figures[name] for figures in rounds]) for name in rounds[0]}


def _combine(name: str, values: list[Any]) -> Any:
    if not isinstance(values[0], int | float):
        return values[0]
    return max(values) if name in WORST else statistics.median(values)


def load() -> float | None:
    """How many processes wanted a core during the last minute; None where that is not known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


LOAD_BEFORE = load()


def surroundings() -> dict[str, Any]:
    """What else a reader of the figures has to know."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load_before": LOAD_BEFORE,
    }
