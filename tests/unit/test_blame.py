"""Blame as a decision: what a lost worker means for each of its jobs."""

from __future__ import annotations

from typing import NamedTuple

from headgate.clock import SECOND
from headgate.engine.rules.blame import Blamed, blame
from headgate.retry import RetryPolicy


class Job(NamedTuple):
    suspicion: int
    lost: int
    lost_after: int = 100 * SECOND
    started_at: int | None = 0
    retry: RetryPolicy = RetryPolicy(losses=5)


def test_losses_beside_others_do_not_make_up_for_those_alone() -> None:
    grave = Job(3, 9)
    assert blame([grave, Job(1, 1)], SECOND, SECOND)[0] == Blamed(3, 10, 100 * SECOND, False)
    assert blame([grave], SECOND, SECOND) == [Blamed(4, 10, 100 * SECOND, False)]
    assert blame([Job(4, 10)], SECOND, SECOND) == [Blamed(5, 11, 100 * SECOND, True)]
