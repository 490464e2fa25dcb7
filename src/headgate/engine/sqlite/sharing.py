"""Fair shares (rule 17) as the file keeps them: virtual times, last tags, mean times, and tagging anew in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headgate.engine.rules.shares import Mean, Place, moved
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.statements import sql

SLICE = 1000
"""Jobs that one transaction tags anew; others run in between."""
TOP = (1 << 63) - 1


Line = tuple[str, int, str]
"""A share's jobs in a queue at a priority."""


class Slice(NamedTuple):
    """A row of `slices`: what has yet to be tagged anew, or to be marked, from where on."""

    id: int
    kind: str
    queue: str
    priority: int
    share: str
    old: int
    new: int
    virtual: int
    tag: int | None
    seq: int


class FileShares:
    """One transaction's view. `flush` writes what the transaction has decided."""

    def __init__(self, connection: Connection, flush: Callable[[], None]) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._flush = flush
        self._virtual: dict[Place, int] = {}
        self._advanced: dict[Place, int] = {}
        self._last: dict[Line, int] = {}
        self._unsure: set[Line] = set()
        self._means: dict[tuple[str, str], Mean | None] = {}

    # ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def virtual_time(self, queue: str, priority: int) -> int:
        """The largest tag that has started."""
        place = queue, priority
        if place not in self._virtual:
            stored = self._execute(sql("virtual_time"), place).get or 0
            self._virtual[place] = max(stored, self._advanced.get(place, 0))
        return self._virtual[place]

    def advance(self, queue: str, priority: int, tag: int) -> None:
        """A job with this tag starts."""
        place = queue, priority
        if tag > self._advanced.get(place, 0):
            self._advanced[place] = tag
            self._virtual.pop(place, None)

    def last_tag(self, queue: str, priority: int, share: str) -> int:
        """The largest tag of a share's ready and waiting jobs. What has started meanwhile may count: its tag is not
        beyond the virtual time."""
        line = queue, priority, share
        if line not in self._last:
            if line in self._unsure:
                self._flush()
                self._unsure.clear()
            self._last[line] = self._execute(sql("last_tag"), line).get or 0
        return self._last[line]

    def expect(self, lines: Iterable[Line]) -> None:
        """The last tags of these are about to be asked for: read in one go, if what is written of them is true."""
        unknown = [line for line in lines if line not in self._last and line not in self._unsure]
        found = self._connection.executemany(sql("last_tag"), unknown).fetchall()
        self._last.update(zip(unknown, (tag or 0 for (tag,) in found), strict=True))

    def tagged(self, queue: str, priority: int, share: str, tag: int) -> None:
        """A newcomer has got its tag."""
        self._last[queue, priority, share] = tag

    def forget_last(self, queue: str, priority: int, share: str) -> None:
        """A job may have left the share's line."""
        line = queue, priority, share
        self._last.pop(line, None)
        self._unsure.add(line)

    def write(self) -> None:
        """Write how far lines have come."""
        for place, tag in self._advanced.items():
            self._execute(sql("advance"), (*place, tag))
        self._advanced.clear()

    # ── mean times ───────────────────────────────────────────────────────────────────────────────────────────────

    def mean(self, queue: str, share: str) -> Mean | None:
        """How long attempts of a share take."""
        known = queue, share
        if known not in self._means:
            rows = self._execute(sql("mean"), known).fetchall()
            self._means[known] = Mean(*rows[0]) if rows else None
        return self._means[known]

    def put_mean(self, queue: str, share: str, mean: Mean) -> None:
        """Write it."""
        self._means[queue, share] = mean
        self._execute(sql("put_mean"), (queue, share, *mean))

    # ── tagging anew ─────────────────────────────────────────────────────────────────────────────────────────────

    def places(self) -> list[Place]:
        """Queues and priorities that have ready or waiting jobs of shares."""
        self._flush()
        return self._execute(sql("shared_places")).fetchall()

    def has_pending(self, place: Place, share: str) -> bool:
        """Whether the share has ready or waiting jobs there."""
        return self._execute(sql("last_tag"), (*place, share)).get is not None

    def queues_of(self, share: str) -> Iterable[str]:
        """The queues in which the share has ready or waiting jobs."""
        return dict.fromkeys(place[0] for place in self.places() if self.has_pending(place, share))

    def retag(self, queue: str, share: str, old: int, new: int) -> bool:
        """Tag the share's jobs anew, a first slice of them; returns whether some are left. Where an earlier change is
        not through yet, this one begins behind it."""
        left = False
        for place in self.places():
            if place[0] == queue and self.has_pending(place, share):
                start = TOP if new > old else 0
                row = ("retag", *place, share, old, new, self.virtual_time(*place), start, start)
                left |= self._begin(row)
        return left

    def _begin(self, row: tuple[str, str, int, str, int, int, int, int, int]) -> bool:
        _, queue, priority, share, _, new, *_ = row
        earlier = self._execute(sql("retags"), (queue, priority, share)).fetchall()
        if len(earlier) > 1:  # the last has not begun: however often a step changes, two of them are enough
            id, old = earlier[-1]
            self._turn(id, old, new)
            return True
        if not earlier:
            rest = self._slice(Slice(0, *row))
            if rest is None:
                return False
            row = (*row[:-2], *rest)
        self._execute(sql("add_slice"), row)
        return True

    def _turn(self, id: int, old: int, new: int) -> None:
        if old == new:
            self._execute(sql("forget_slice"), (id,))
        else:
            self._execute(sql("turn_slice"), (id, new, TOP if new > old else 0))

    def go_on(self, slice: Slice) -> None:
        """The next slice of what an earlier transaction has begun."""
        self._flush()
        rest = self._slice(slice)
        if rest is None:
            self._execute(sql("forget_slice"), (slice.id,))
        else:
            self._execute(sql("move_slice"), (slice.id, *rest))

    def _slice(self, slice: Slice) -> tuple[int, int] | None:
        """Tag some jobs anew; returns where to go on. Upwards where steps shrink and downwards where they grow, so that
        what was moved lies behind."""
        assert slice.tag is not None
        self.forget_last(slice.queue, slice.priority, slice.share)
        line = (slice.queue, slice.priority, slice.share)
        if slice.new > slice.old:
            bindings = (*line, slice.tag, slice.seq, SLICE, slice.virtual)
            rows = self._execute(sql("tags_down_from"), bindings).fetchall()
        else:
            first = max((slice.virtual, TOP), (slice.tag, slice.seq))
            rows = self._execute(sql("tags_from"), (*line, *first, SLICE)).fetchall()
        tags = [(seq, moved(tag, slice.virtual, slice.old, slice.new)) for seq, tag in rows]
        self._connection.executemany(sql("retag"), tags)
        return (rows[-1][1], rows[-1][0]) if len(rows) == SLICE else None
