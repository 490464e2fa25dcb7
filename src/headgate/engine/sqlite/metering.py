"""What was spent of rate keys, read when it is first asked for and written at the end of the transaction."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from headgate.engine.rules.admission import Rule
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.statements import sql
from headgate.rates import Bucket, Meter, Pace, Window

ALL = (1 << 63) - 1
"""Later than any start."""


class Metering:
    """The meters of one transaction. Starts in exact windows are written at once, as many as there are new ones."""

    def __init__(self, connection: Connection, rule: Callable[[str], Rule], now: int) -> None:
        self._execute = connection.execute
        self._rule = rule
        self._now = now
        self._known: dict[str, Meter] = {}
        self._changed: dict[str, Bucket] = {}

    def meter(self, key: str) -> Meter:
        """What was spent of a key."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(key, self._rule(key))
        return found

    def spend(self, key: str, pace: Pace, units: int) -> Meter:
        """Take tokens."""
        meter = self.meter(key)
        meter.spend(pace, units, self._now)
        if isinstance(meter, Bucket):
            self._changed[key] = meter
        else:
            self._execute(sql("forget_meter"), (key,))
            self._execute(sql("forget_starts"), (key, self._now - pace.period))
            self._execute(sql("put_start"), (key, self._now, units, self._now + pace.period))
        return meter

    def change(self, key: str, pace: Pace, change: Callable[[Meter], None]) -> None:
        """Correct or close a meter."""
        meter = self.meter(key)
        before = Counter(meter.starts) if isinstance(meter, Window) else Counter[tuple[int, int]]()
        change(meter)
        if isinstance(meter, Bucket):
            self._changed[key] = meter
        elif isinstance(meter, Window):
            self._write_difference(key, pace, before, Counter(meter.starts))

    def write(self) -> None:
        """Write the buckets that have changed."""
        for key, bucket in self._changed.items():
            self._execute(sql("put_meter"), (key, bucket.full_at, bucket.since, bucket.refunded))
            self._execute(sql("forget_starts"), (key, ALL))
        self._changed.clear()

    def _write_difference(
        self, key: str, pace: Pace, before: Counter[tuple[int, int]], after: Counter[tuple[int, int]]
    ) -> None:
        self._execute(sql("forget_meter"), (key,))
        for at, units in (before - after).elements():
            self._execute(sql("forget_start"), (key, at, units))
        for at, units in (after - before).elements():
            self._execute(sql("put_start"), (key, at, units, at + pace.period))

    def _read(self, key: str, rule: Rule) -> Meter:
        if isinstance(rule, Pace) and rule.exact:
            return Window(deque(self._execute(sql("starts"), (key, self._now - rule.period))))
        rows = self._execute(sql("meter"), (key,)).fetchall()
        return Bucket(*rows[0]) if rows else Bucket()
