"""What fair shares do to jobs: their place when they come, what their time costs, what a changed weight moves.

The numbers are those of `shares`; engines whose transactions are in Python add the storage at the end of the page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headgate.engine.contract import ShareWeight
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.shares import Mean, is_far, learnt, next_tag, step_of
from headgate.engine.rules.stored import Stored


class Sharing(ABC):
    """A part of the transitions of one transaction."""

    book: RuleBook
    now: int

    def tag(self, job: Stored, share: str) -> None:
        """Its place among the shares of its queue."""
        virtual = self.virtual_time(job.queue, job.priority)
        last = self.last_tag(job.queue, job.priority, share)
        self.put_tag(job, share, next_tag(virtual, last, self._step(job, share)))

    def _step(self, job: Stored, share: str) -> int:
        mean = self.mean(job.queue, share) if job.spec.charge == "time" else None
        return mean.step if mean is not None else step_of(self.book.weight(share))

    def learn_time(self, job: Stored, share: str) -> None:
        """What the attempt took is what the share is charged for; what waits is tagged anew where that differs much."""
        assert job.started_at is not None
        before = self.mean(job.queue, share)
        weight = self.book.weight(share)
        old = step_of(weight) if before is None else before.step
        mean = learnt(before, max(self.now - job.started_at, 0))
        new = step_of(weight, mean)
        if is_far(old, new):
            self.retag(job.queue, share, old, new)
        else:
            new = old
        self.put_mean(job.queue, share, Mean(mean, self.now, new))

    def declare_shares(self, weights: Sequence[ShareWeight]) -> None:
        """Write the weights of code that differ."""
        for weight in weights:
            if self.book.declared_weight(weight.share) != weight.weight:
                self._weight_changes(weight.share, lambda weight=weight: self.put_declared_weight(weight))

    def set_share(self, share: str, weight: ShareWeight | None) -> None:
        """An operator's word on a share comes into force, or is taken back."""
        self._weight_changes(share, lambda: self.put_weight(share, weight))

    def _weight_changes(self, share: str, write: Callable[[], None]) -> None:
        """What waits is tagged anew, so that the weight is in force for it, too."""
        old = self.book.weight(share)
        write()
        new = self.book.weight(share)
        if old == new:
            return
        for queue in self.queues_of_share(share):
            mean = self.mean(queue, share)
            if mean is None:
                self.retag(queue, share, step_of(old), step_of(new))
            else:
                step = step_of(new, mean.us)
                self.retag(queue, share, mean.step, step)
                self.put_mean(queue, share, mean._replace(step=step))

    # ── what a store provides ────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def change(self, job: Stored, **fields: Any) -> None:
        """Set fields of a stored job."""

    def put_tag(self, job: Stored, share: str, tag: int) -> None:
        """Set the tag of a scheduled job, which stands in no line."""
        self.change(job, tag=tag)

    @abstractmethod
    def virtual_time(self, queue: str, priority: int) -> int:
        """The largest tag that has started in a queue at a priority."""

    @abstractmethod
    def last_tag(self, queue: str, priority: int, share: str) -> int:
        """The largest tag among the ready and waiting jobs of a share in a queue at a priority; 0 without any."""

    @abstractmethod
    def mean(self, queue: str, share: str) -> Mean | None:
        """How long attempts of a share take that is charged by time."""

    @abstractmethod
    def put_mean(self, queue: str, share: str, mean: Mean) -> None:
        """Write it."""

    @abstractmethod
    def queues_of_share(self, share: str) -> Iterable[str]:
        """The queues in which jobs of a share are ready or waiting."""

    @abstractmethod
    def retag(self, queue: str, share: str, old: int, new: int) -> None:
        """Move the tags of a share's ready and waiting jobs in a queue to another step (shares.moved), a first part of
        them if there are too many for one transaction."""

    @abstractmethod
    def put_declared_weight(self, weight: ShareWeight) -> None:
        """Write a share's weight as code declares it, in the store and in the book."""

    @abstractmethod
    def put_weight(self, share: str, weight: ShareWeight | None) -> None:
        """Write or delete an operator's word on a share, in the store and in the book."""
