"""What a row of the table has to reach, and whether it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench.figures import Figures


@dataclass(frozen=True)
class Check:
    """A bound on one figure; with `of_best_peer`, on the figure divided by the best peer's."""

    figure: str
    sign: Literal["≥", "≤", "="]
    bound: float
    unit: str = ""
    of_best_peer: bool = False

    def __str__(self) -> str:
        number = f"{self.bound:g}"
        if self.of_best_peer:
            return f"{self.sign} {number}× the best"
        return f"{self.figure.replace('_', ' ')} {self.sign} {number}{self.unit}"


@dataclass(frozen=True)
class Verdict:
    """A check with what was measured; `reached` is None when there was no peer to compare with."""

    check: Check
    value: float | None
    reached: bool | None
    against: str | None = None


def judge(check: Check, ours: Figures, peers: Mapping[str, Figures]) -> Verdict:
    """Compare our figure with the bound, or with the largest figure among the peers that decide."""
    value: float = ours[check.figure]
    if not check.of_best_peer:
        return Verdict(check, value, _holds(check, value))
    if not peers:
        return Verdict(check, None, None)
    best = max(peers, key=lambda name: peers[name][check.figure])
    ratio = value / peers[best][check.figure]
    return Verdict(check, ratio, _holds(check, ratio), against=best)


def _holds(check: Check, value: float) -> bool:
    match check.sign:
        case "≥":
            return value >= check.bound
        case "≤":
            return value <= check.bound
        case "=":
            return value == check.bound
