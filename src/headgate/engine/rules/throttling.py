"""What a service's own words do to keys: it was asked too much, or was asked for other units than were taken.

Engines whose transactions are in Python add the storage at the end of the page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import Spent, Throttled
from headgate.engine.rules.admission import GATE_STEPS, Admission, Cap, Gate
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.stored import Stored
from headgate.keys import Key, is_rate
from headgate.rates import Pace

CAPS = ("c0:task:", "c0:queue:")
SHORTEST_STEP = SECOND // 20
"""A throttled key opens by one slot at a time, and not more often than this."""


class Throttling(ABC):
    """A part of the transitions of one transaction."""

    admission: Admission[Any]
    book: RuleBook
    now: int

    def throttle(self, job: Stored, outcome: Throttled) -> bool:
        """Close the keys that the report means; returns whether there are any."""
        keys = [use.key for use in self.admission.ledger.uses(job)]
        if outcome.name is not None:
            keys = [key for key in keys if Key.of(key).name == outcome.name]
        else:
            own = [key for key in keys if not key.startswith(CAPS)]
            keys = [key for key in own if is_rate(key)] or own
        for key in keys:
            self._close_key(key, self.now + outcome.delay, outcome.delay)
        return bool(keys)

    def _close_key(self, key: str, until: int, delay: int) -> None:
        rule = self.book.rule(key)
        if isinstance(rule, Cap):
            step = max(delay // max(GATE_STEPS if rule.max is None else rule.max, 1), SHORTEST_STEP)
            if rule.gate is None or rule.gate.opens_at < until:
                self.put_gate(key, Gate(until, step))
                self.book.changed()
        elif rule.limit:
            self.admission.ledger.close(key, rule, until)
        self.admission.touch(key)

    def open_wide(self, key: str) -> None:
        """A throttled key has opened again as far as it can."""
        self.put_gate(key, None)
        self.book.changed()
        self.admission.ledger.arm(key, None)
        self.admission.touch(key)

    def correct(self, job: Stored, report: Spent) -> None:
        """A running attempt says what it really spent."""
        for key, spending in list(job.spent.items()):
            rule = self.book.rule(key)
            if Key.of(key).name == report.name and isinstance(rule, Pace) and rule.limit:
                self.admission.ledger.correct(key, rule, spending, report.units)
                truth = msgspec.structs.replace(spending, units=report.units)
                self.change(job, spent={**job.spent, key: truth})
                self.admission.touch(key)

    # ── what a store provides ────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def change(self, job: Stored, **fields: Any) -> None:
        """Set fields of a stored job."""

    @abstractmethod
    def put_gate(self, key: str, gate: Gate | None) -> None:
        """Write or delete what a throttled key opens by, in the store and in the book."""
