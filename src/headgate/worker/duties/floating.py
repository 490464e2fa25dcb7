"""Floating limits: their numbers are computed by ordinary jobs, so that what jobs have (one at a time by `unique`,
retries with back-off, a place in the log) is theirs, too.

The duty asks for the keys in use whose number is missing or old and enqueues a refresh for each; the refresh looks
again, so that two workers that both found it due cause one call of the function.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import Engine, KeyInUse
from headgate.errors import ConfigError, PayloadError
from headgate.hooks.dependencies import Dependency
from headgate.ids import new_id
from headgate.job import INTERNAL_QUEUE, NewJob
from headgate.keys import Key
from headgate.limits import FloatingLimitView, FloatingRule
from headgate.retry import Retry
from headgate.worker.duties.duty import jittered
from headgate.worker.events import Events

log = logging.getLogger("headgate.worker")

RETRY = Retry(attempts=1_000_000, delay=1, backoff=2, max_delay=60, jitter=0)
"""Until it works: 1, 2, 4 … 60 seconds. The old number stays in force meanwhile."""


KEYS_PER_ROUND = 500
"""Keys per rule and round: a round costs what is due, and never holds up the store for long."""
NEXT_ROUND = 0.05


class Refresh:
    """The task that computes one key's number; has the shape of any other task."""

    is_async = True
    in_process = False
    retry = RETRY
    schedule = None
    learning = None
    dependencies: Mapping[str, Dependency] = {}

    def __init__(self, engine: Engine, rule: FloatingRule) -> None:
        self.name = f"floating:{rule.name}"
        self.rule = rule
        self.runs = 0
        self._engine = engine

    async def fn(self, ident: str) -> int | None:
        """Compute and store the number; None if that was done meanwhile, or if the key is no longer in use."""
        self.runs += 1
        before = await self._engine.clock() - self.rule.every + 1
        page = await self._engine.keys_in_use(
            self.rule.name, computed_before=before, after=just_before(ident), limit=1
        )
        if not page or page[0].key != ident:
            return None
        number = check_number(await self._call(view(page[0], self.rule)), self.rule.name)
        await self._engine.compute(ident, number)
        return number

    async def _call(self, limit: FloatingLimitView) -> Any:
        function = self.rule.function
        on_loop = inspect.iscoroutinefunction(function)
        answer = function(limit) if on_loop else await asyncio.to_thread(function, limit)
        return await answer if inspect.isawaitable(answer) else answer

    def decode(self, args: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The one argument is the key's ident."""
        try:
            return (msgspec.json.decode(args, type=str),), {}
        except msgspec.DecodeError as error:
            raise PayloadError(f"{self.name}: not the ident of a key: {error}") from None

    def encode_result(self, value: Any) -> str:
        """The number, as the result of the job."""
        return msgspec.json.encode(value).decode()

    def job(self, ident: str) -> NewJob:
        """One refresh at a time per key."""
        return NewJob(
            id=new_id(),
            task=self.name,
            queue=INTERNAL_QUEUE,
            args=msgspec.json.encode(ident).decode(),
            retry=self.retry.policy,
            unique=f"floating:{ident}",
            on_conflict="return",
            priority=0,
            retention=0,
        )


class Floating:
    """Enqueues the refreshes that are due, also for keys at 0 with nothing but waiters."""

    name = "refresh of floating limits"

    def __init__(self, engine: Engine, rules: Sequence[FloatingRule], events: Events) -> None:
        self.found = False
        self.asked = True
        self._after: dict[str, str | None] = {}
        self.tasks = {task.name: task for task in (Refresh(engine, rule) for rule in rules)}
        self._engine = engine
        self._events = events
        shortest = min((rule.every for rule in rules), default=0) / SECOND
        self._interval = min(max(shortest / 10, 1.0), 5.0)

    @property
    def needed(self) -> bool:
        """Whether there is any floating limit."""
        return bool(self.tasks)

    @property
    def runs(self) -> int:
        """How many refreshes this worker has run."""
        return sum(task.runs for task in self.tasks.values())

    async def run_once(self) -> float:
        """Look at the next page of each rule's keys whose number is missing or old."""
        now = await self._engine.clock()
        jobs = [job for task in self.tasks.values() for job in await self._due(task, now)]
        created = [made.id for made in await self._engine.enqueue(jobs) if made.created] if jobs else []
        self.found = bool(created) or any(self._after.values())
        if created:
            self._events.emit("refreshing", jobs=created)
        return NEXT_ROUND if any(self._after.values()) else jittered(self._interval)

    async def _due(self, task: Refresh, now: int) -> list[NewJob]:
        """One page per round: a key that is still due after its refresh was enqueued does not hold up the next ones."""
        name, before = task.rule.name, now - task.rule.every + 1
        page = await self._engine.keys_in_use(
            name, computed_before=before, after=self._after.get(name), limit=KEYS_PER_ROUND
        )
        self._after[name] = page[-1].key if len(page) == KEYS_PER_ROUND else None
        return [task.job(entry.key) for entry in page]


def just_before(ident: str) -> str:
    """A text behind which `ident` comes first in the order of idents: no key's ident lies between the two."""
    last = ord(ident[-1]) - 1
    return ident[:-1] + chr(0xD7FF if last == 0xDFFF else last) + "\U0010ffff"  # no surrogates: not UTF-8


def view(entry: KeyInUse, rule: FloatingRule) -> FloatingLimitView:
    """A key as its function sees it."""
    key = Key.of(entry.key)
    return FloatingLimitView(
        key.text, key.name, key.value, key.tenant or None, entry.max, entry.held, entry.waiting, rule.metadata
    )


def check_number(value: object, name: str) -> int:
    """What the function returned, if it is a number of slots."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000_000:
        raise ConfigError(
            f"the function of floating limit {name!r} returned {value!r}; a whole number >= 0 is needed"
        )
    return value
