"""How the PostgreSQL store stands as a whole: totals, queues, the tightest keys, single keys, history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.engine.contract import Done, KeyStatus, LimitStatus, QueueStatus, Totals, Waiter
from headgate.engine.postgres.reading import Reader, holder
from headgate.engine.postgres.rows import is_ident, read_state
from headgate.engine.postgres.wire import got, got_key, put_if, put_key
from headgate.engine.rules.status import key_status
from headgate.job import JobState
from headgate.keys import Key

_decode = msgspec.json.decode
_NOTHING = (0, True)


class Overview(Reader):
    """The verbs that operators' pages ask, over one connection."""

    async def totals(self, most: int | None) -> Totals:
        """How many jobs there are in each state."""
        counts = dict.fromkeys(JobState, 0)
        partial: set[JobState] = set()
        for text, number, exact in await self.rows("totals", most):
            state = read_state(text)
            counts[state] += number
            if not exact:
                partial.add(state)
        return Totals(counts, frozenset(partial))

    async def queues(self, most: int | None) -> list[QueueStatus]:
        """Every queue with unfinished jobs, or paused."""
        counts: defaultdict[str, dict[str, tuple[int, bool]]] = defaultdict(dict)
        for queue, state, number, exact in await self.rows("queues", most):
            counts[got(queue)][state] = number, exact
        return [_queue(name, counted) for name, counted in sorted(counts.items())]

    async def tightest(self, most: int) -> list[LimitStatus]:
        """The keys that most jobs wait on."""
        found = [(got_key(key), *counts) for key, *counts in await self.rows("tightest", most)]
        keys = [(key, *counts) for key, *counts in found if is_ident(key)]
        book, _ = await self.book(computed_for=[key for key, *_ in keys])
        return [key_status(book, Key.of(key), held, waiting, exact) for key, held, waiting, exact in keys]

    async def keys(
        self, idents: Sequence[str], holders: int, waiters: int, now: int | None
    ) -> list[KeyStatus | None]:
        """How these keys stand."""
        book, at = await self.book(now, computed_for=idents)
        rows = await self.rows("key_stands", [put_key(ident) for ident in idents], holders, waiters, at)
        keys = [Key.of(ident) for ident in idents]
        stands = [key_status(book, key, *row[:3]) for key, row in zip(keys, rows, strict=True)]
        stands = await self.with_tokens(book, stands, idents, at)
        return [
            _key(status, row) if book.is_known(key) else None
            for key, status, row in zip(keys, stands, rows, strict=True)
        ]

    async def history(
        self, since: int, step: int, queue: str | None, task: str | None, *, each: bool
    ) -> list[Done]:
        """What was done, by spans of time."""
        rows = await self.rows("history", since, step, put_if(queue), put_if(task), each)
        return [Done(at, got(of_queue), got(of_task), *numbers) for at, of_queue, of_task, *numbers in rows]


def _queue(name: str, counted: Mapping[str, tuple[int, bool]]) -> QueueStatus:
    states = [counted.get(state, _NOTHING) for state in ("scheduled", "ready", "waiting", "running")]
    return QueueStatus(
        name,
        "paused" in counted,
        *(number for number, _ in states),
        oldest=counted["oldest"][0] if "oldest" in counted else None,
        exact=all(exact for _, exact in states),
    )


def _key(status: LimitStatus, row: Any) -> KeyStatus:
    _, _, _, free, earliest, holders, waiters = row
    return KeyStatus(
        status, free, earliest, tuple(map(holder, _decode(holders))), tuple(map(_waiter, _decode(waiters)))
    )


def _waiter(row: Any) -> Waiter:
    id, task, queue, tenant, priority, due = row
    return Waiter(got(id), got(task), got(queue), got(tenant), priority, due)
