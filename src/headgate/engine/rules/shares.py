"""Fair shares (rule 17): who is next among jobs of one queue and priority.

A job with a share gets a *tag* when it becomes due, and lines are in the order of tags. A share's tags lie a *step*
apart, the shorter the larger its weight, so that shares get starts in proportion to their weights, and a newcomer of a
quiet share stands right behind what has started, however many jobs of other shares wait. What has started last says
how far the queue has come: its *virtual time*. An idle share leaves nothing behind, and earns nothing: it comes back at
that time.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.clock import SECOND

SCALE = 10_000
"""The step of a share of weight 1 that is charged by starts, or by time where attempts take a second."""
LEARNT = 8
"""A mean moves by one part of so many towards each new attempt's time."""
KEEP_MEANS = 3600 * SECOND
"""How long the mean time of a share without jobs is remembered."""
Place = tuple[str, int]
"""A queue and a priority: shares are compared within these."""


class Mean(NamedTuple):
    """How long attempts of a share in a queue held their slots, when that was last learnt, and the step of the share's
    tags there. Kept only of shares that are charged by time."""

    us: int
    at: int
    step: int


def step_of(weight: float, mean_us: int | None = None) -> int:
    """How far apart the tags of a share lie; `mean_us` where it is charged by time."""
    cost = 1.0 if mean_us is None else mean_us / SECOND
    return max(1, round(SCALE * cost / weight))


def next_tag(virtual: int, last: int, step: int) -> int:
    """The tag of a newcomer: behind what has started, and behind the last of its share."""
    return max(virtual, last) + step


def learnt(before: Mean | None, took: int) -> int:
    """The mean after another attempt, in microseconds."""
    return took if before is None else before.us + (took - before.us) // LEARNT


def is_far(old: int, new: int) -> bool:
    """Whether a step has changed so much that what waits is tagged anew."""
    return abs(new - old) * 4 > old


def moved(tag: int, virtual: int, old: int, new: int) -> int:
    """Where a waiting job's tag goes when its share's step changes: the part of the way that is still before it."""
    return tag if tag <= virtual else virtual + (tag - virtual) * new // old
