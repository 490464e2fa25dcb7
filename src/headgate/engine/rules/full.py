"""What becomes of a job for which there is no room (rule 19): it waits, leaves, or others leave for it.

Asked by the walker, in one place: where a job arrives (`Admission.arrive`). A job that comes back uncounted, since its
worker was lost or gave it back, had a slot already: it always waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import msgspec

from headgate.engine.contract import Limit, Overflow, WhenFull
from headgate.engine.rules import turned_away
from headgate.errors import BacklogFull
from headgate.keys import Key, Use

SLICE = 1000
"""How many waiters one newcomer can replace; where there are more, the next newcomers go on."""


class Policy(msgspec.Struct, frozen=True):
    """What a limit does with those for whom there is no room."""

    when_full: WhenFull
    max_waiting: int | None
    on_overflow: Overflow


def policy_of(limit: Limit | None) -> Policy | None:
    """None for limits that let all wait: nearly all."""
    if limit is None or (limit.when_full == "wait" and limit.max_waiting is None):
        return None
    return Policy(limit.when_full, limit.max_waiting, limit.on_overflow)


class Arriving(Protocol):
    """A job as these decisions see it."""

    @property
    def id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...


J = TypeVar("J", bound=Arriving)
J_co = TypeVar("J_co", bound=Arriving, covariant=True)


class Crowd(Protocol[J_co]):
    """What a ledger must answer about those that wait already."""

    def policy(self, key: str, /) -> Policy | None:
        """What the limit of a key does when there is no room."""
        ...

    def count_waiting(self, key: str, most: int) -> int:
        """How many jobs of all queues wait on a key, counted up to `most`."""
        ...

    def count_pending(self, queue: str, most: int) -> int:
        """How many jobs of a queue are ready or waiting, counted up to `most`."""
        ...

    def all_waiting(self, key: str, most: int) -> Sequence[J_co]:
        """Jobs of all queues that wait on a key, in order of queue and line."""
        ...

    def last_in_line(self, key: str) -> J_co | None:
        """Of the jobs of all queues that wait on a key, the first in order among those of the least urgent priority."""
        ...

    def last_pending(self, queue: str) -> J_co | None:
        """Likewise of the ready and waiting jobs of a queue, other than newcomers of this very step."""
        ...

    def longest_running(self, key: str) -> J_co | None:
        """The running holder of a key that has held it longest and was not asked to stop yet."""
        ...


@lru_cache(10_000)
def _queue_ident(queue: str) -> str:
    """The key that bounds a queue's backlog; asked for at each arrival."""
    return Key(f"queue:{queue}").ident


class Full(Generic[J]):
    """Decides over one ledger. `leave` ends a pending job as cancelled with a reason, `stop` asks a running one to."""

    def __init__(self, crowd: Crowd[J]) -> None:
        self.crowd = crowd
        self.leave: Callable[[J, str], None]
        self.stop: Callable[[J, str], None]

    def may_enter(self, job: J, *, entering: bool) -> bool:
        """Whether the queue takes another job, or made room for it."""
        ident = _queue_ident(job.queue)
        policy = self.crowd.policy(ident)
        if policy is None or policy.max_waiting is None:
            return True
        if self.crowd.count_pending(job.queue, policy.max_waiting) < policy.max_waiting:
            return True
        return self._overflow(job, policy, ident, self.crowd.last_pending(job.queue), entering)

    def may_wait(self, job: J, on: Use, *, entering: bool) -> bool:
        """Whether the job stands in the line of the key that refused it."""
        policy = self.crowd.policy(on.key)
        if policy is None:
            return True
        if policy.when_full == "drop":
            self.leave(job, turned_away.dropped(on.key))
            return False
        if policy.when_full == "replace":
            for waiter in self.crowd.all_waiting(on.key, SLICE):
                self.leave(waiter, turned_away.replaced(on.key, job.id))
        elif policy.when_full == "cancel" and (running := self.crowd.longest_running(on.key)) is not None:
            self.stop(running, turned_away.displaced(on.key, job.id))
        if policy.max_waiting is None or on.key.startswith("c0:queue:"):
            return True
        if self.crowd.count_waiting(on.key, policy.max_waiting) < policy.max_waiting:
            return True
        return self._overflow(job, policy, on.key, self.crowd.last_in_line(on.key), entering)

    def _overflow(self, job: J, policy: Policy, ident: str, last: J | None, entering: bool) -> bool:
        assert policy.max_waiting is not None
        if policy.on_overflow == "refuse":
            if entering:
                raise BacklogFull(turned_away.refused(ident, policy.max_waiting), Key.of(ident).text)
            return True
        if policy.on_overflow == "drop_newest" or last is None or job.priority > last.priority:
            self.leave(job, turned_away.overflowed(ident, policy.max_waiting))
            return False
        self.leave(last, turned_away.overflowed(ident, policy.max_waiting))
        return True
