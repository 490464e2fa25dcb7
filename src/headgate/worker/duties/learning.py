"""Limits that learn (limits/adapt.py), as a worker keeps them: what its attempts say of a key's number, and the number
that the store has meanwhile.

Each worker learns from its own attempts. What a learner would change is written only over the number that it has seen,
so that of several workers that met the same trouble one is heard; the others see the new number within a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from headgate.engine.contract import Engine, KeyStatus, Outcome, Succeeded, Throttled
from headgate.keys import Key
from headgate.limits.adapt import Adaptive, Change, Ended, Learner
from headgate.worker.bell import Bell
from headgate.worker.events import Events

log = logging.getLogger("headgate.worker")

LOOK = 1.0
"""Seconds between two looks at the numbers of the keys that are in use here."""
FORGOTTEN = 600.0
"""Seconds after which a key that is not in use here is forgotten."""
KEYS_PER_LOOK = 200
FULL = 0.9
"""The part of a number that must be in use before more is tried: a key that opens slowly after it was throttled, or is
asked for by few, says nothing of what the service bears."""


class Known:
    """One key: its learner, and when an attempt last ran here."""

    __slots__ = ("learner", "used_at")

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.used_at = 0.0


class Learning:
    """The duty of a worker whose tasks have adaptive limits."""

    name = "learning of limits"

    def __init__(self, engine: Engine, events: Events) -> None:
        self.asked = False
        self.bell: Bell | None = None
        self._engine = engine
        self._events = events
        self._known: dict[str, Known] = {}
        self._changes: dict[str, Change] = {}

    def began(self, keys: Mapping[str, Adaptive]) -> None:
        """An attempt that needs these keys starts."""
        now = time.monotonic()
        for ident, (adapt, number) in keys.items():
            known = self._known.get(ident)
            if known is None:
                known = self._known[ident] = Known(Learner(adapt, number, number, now))
            known.used_at = now
            known.learner.began()

    def ended(
        self, keys: Mapping[str, Adaptive], outcome: Outcome, took: float, *, timed_out: bool = False
    ) -> None:
        """It has ended. What was cancelled, given back or failed for reasons of its own says nothing."""
        how = _how(outcome, timed_out)
        now = time.monotonic()
        for ident in keys:
            known = self._known.get(ident)
            if known is None:
                continue
            change = None if how is None else known.learner.ended(how, took, now)
            if how is None:
                known.learner.running -= 1
            if change is not None:
                self._changes[ident] = change
                if self.bell is not None:
                    self.bell.ring()

    async def run_once(self) -> float:
        """Write what was learnt, and see what others have."""
        now = time.monotonic()
        for ident, known in list(self._known.items()):
            if known.learner.running == 0 and known.used_at + FORGOTTEN < now:
                del self._known[ident]
        self.asked = bool(self._known)
        changes, self._changes = self._changes, {}
        idents = list(dict.fromkeys([*changes, *self._known]))
        for first in range(0, len(idents), KEYS_PER_LOOK):
            page = idents[first : first + KEYS_PER_LOOK]
            for ident, status in zip(page, await self._engine.keys(page, holders=0), strict=True):
                if status is not None and ident in self._known:
                    await self._settle(ident, status, changes.get(ident))
        return LOOK

    async def _settle(self, ident: str, status: KeyStatus, change: Change | None) -> None:
        learner, number = self._known[ident].learner, _number(status)
        if change is not None and change.seen == number and number is not None:
            if change.only_if_full and status.status.held < number * FULL:
                learner.not_full()
            else:
                wanted = learner.bounded(change, status.status.held)
                if await self._engine.learn(ident, wanted, seen=number, reason=change.reason):
                    text = "limit %s: %d at once instead of %d: %s"
                    log.info(text, Key.of(ident).text, wanted, number, change.reason)
                    self._events.emit("learnt", key=ident, number=wanted, reason=change.reason)
                    number = wanted
        if number is not None:
            learner.see(number, time.monotonic())


def _number(status: KeyStatus) -> int | None:
    """The number that is learnt from, whatever an operator says meanwhile."""
    return status.status.max if status.status.override is None else None


def _how(outcome: Outcome, timed_out: bool) -> Ended | None:
    if timed_out:
        return "timed out"
    match outcome:
        case Succeeded():
            return "good"
        case Throttled():
            return "throttled"
        case _:
            return None
