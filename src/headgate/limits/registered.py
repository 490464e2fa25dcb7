"""The limits that this process has declared, and those that the store has yet to hear of.

Code declares each name once with one value; anything else is a mistake that is refused at once. Limits that come with
a single enqueue (`Limit.by_job`) may have another number for each key: the store is told of one of them, and, from the
second on, that jobs bring their numbers. One that the store refuses is forgotten with that enqueue, or every later step
would carry it again and be refused, too.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from headgate.engine.contract import Engine, Limit
from headgate.errors import ConfigError
from headgate.forks import renew_after_fork
from headgate.limits.bound import BoundLimit


class RegisteredLimits:
    """What code says about limits, by name, and what of it the store has yet to hear."""

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)
        self._fixed: dict[str, Limit] = {}
        self._last: dict[str, Limit] = {}
        self._unsent: dict[str, Limit] = {}
        self._floating: set[str] = set()

    def renew(self) -> None:
        """A new lock: in a forked child no thread is declaring anything."""
        self._lock = threading.Lock()

    def use_floating(self, name: str) -> None:
        """A task uses a floating limit, which may be registered later: no other kind may have its name."""
        known = self._fixed.get(name)
        if known is not None and known.kind != "floating":
            raise _two_kinds(name, known.kind, "floating")
        self._floating.add(name)

    def check(self, limit: Limit) -> None:
        """Refuse a second declaration that differs from the first."""
        known = self._fixed.get(limit.name) or self._last.get(limit.name)
        if known is not None and known.kind != limit.kind:
            raise _two_kinds(limit.name, known.kind, limit.kind)
        if limit.kind != "floating" and limit.name in self._floating:
            raise _two_kinds(limit.name, "floating", limit.kind)
        known = self._fixed.get(limit.name)
        if known is not None and known != (_numbered_as(known, limit) if limit.by_job else limit):
            raise ConfigError(
                f"limit {limit.name!r} is declared twice with different values: {_show(known)} and {_show(limit)}; "
                "use the same value or another scope="
            )

    def declare(self, limits: Iterable[Limit]) -> None:
        """Take up what stands in code."""
        for limit in limits:
            self.check(limit)
            with self._lock:
                self._fixed[limit.name] = limit
            self._note(limit)

    def declare_bound(self, limits: Iterable[BoundLimit]) -> None:
        """Take up the limits of a task."""
        self.declare(list(self._records(limits)))

    def check_bound(self, limits: Iterable[BoundLimit]) -> None:
        """Refuse limits that are to come with single enqueues, if they contradict the code."""
        for limit in self._records(limits):
            self.check(limit)

    def mention_bound(self, limits: Iterable[BoundLimit]) -> None:
        """Take up the limits that come with one enqueue."""
        for limit in self._records(limits):
            self.mention(limit)

    def _records(self, limits: Iterable[BoundLimit]) -> Iterator[Limit]:
        """What the store is told of limits. A use of a floating limit tells it nothing: its own rule does."""
        for bound in limits:
            if bound.record is not None:
                yield bound.record
            else:
                self.use_floating(bound.name)

    def mention(self, limit: Limit) -> None:
        """Take up what came with one enqueue. It is sent with that even if it was sent before: another process may have
        said something else meanwhile, and the newest word counts."""
        fixed = self._fixed.get(limit.name)
        if fixed is not None and fixed.max == limit.max and _numbered_as(fixed, limit) == fixed:
            return
        self.check(limit)
        with self._lock:
            self._last[limit.name] = limit
            unsent = self._unsent.get(limit.name)
            self._unsent[limit.name] = limit if unsent is None else _together(unsent, limit)

    def _note(self, limit: Limit) -> None:
        with self._lock:
            self._last[limit.name] = limit
            self._unsent[limit.name] = limit

    def unsent(self) -> tuple[Limit, ...]:
        """What the next step must carry. It stays unsent until that step is done, so that no step overtakes it."""
        if not self._unsent:
            return ()
        with self._lock:
            return tuple(self._unsent.values())

    @contextmanager
    def carried(self) -> Generator[tuple[Limit, ...]]:
        """What is unsent, inside a step that carries it to the store."""
        limits = self.unsent()
        try:
            yield limits
        except ConfigError:
            self._forget(limits)
            raise
        with self._lock:
            for limit in limits:
                if self._unsent.get(limit.name) is limit:
                    del self._unsent[limit.name]

    async def send(self, engine: Engine) -> None:
        """Tell the store what it has yet to hear."""
        with self.carried() as limits:
            await engine.declare(limits)

    async def send_each(self, engine: Engine) -> dict[str, str]:
        """The same for limits that came with several records; returns those that the store refuses, and why. A refused
        one must not fail the records beside it, so that each is then told alone."""
        if not self._unsent:
            return {}
        with suppress(ConfigError), self.carried() as limits:
            await engine.declare(limits)
            return {}
        refused: dict[str, str] = {}
        for limit in limits:
            try:
                await engine.declare([limit])
            except ConfigError as error:
                refused[limit.name] = str(error)
        return refused

    def _forget(self, limits: Iterable[Limit]) -> None:
        """The store refused these. What stands in code stays to be sent: the code is wrong until it is changed. What
        came with one enqueue is forgotten with it."""
        with self._lock:
            for limit in limits:
                if self._unsent.get(limit.name) is limit and self._fixed.get(limit.name) is not limit:
                    del self._unsent[limit.name]
                    self._last.pop(limit.name, None)

    def all_unsent(self) -> None:
        """Another store: tell it everything that stands in code again."""
        with self._lock:
            self._last = dict(self._fixed)
            self._unsent = dict(self._fixed)


def _two_kinds(name: str, one: str, other: str) -> ConfigError:
    return ConfigError(
        f"limit {name!r} is declared as {one} and as {other}; give one of them another name (scope=)"
    )


def _numbered_as(known: Limit, limit: Limit) -> Limit:
    """A limit that comes with jobs, with the number of the declared one: all else must be the same."""
    return msgspec.structs.replace(limit, max=known.max, per_key=known.per_key, by_job=known.by_job)


def _together(unsent: Limit, limit: Limit) -> Limit:
    """What one step tells the store of two numbers that it has yet to hear of: the first, and that there are others."""
    several = unsent.per_key or limit.per_key or unsent.max != limit.max
    return msgspec.structs.replace(limit, max=unsent.max, per_key=several, by_job=unsent.by_job)


def _show(limit: Limit) -> str:
    words = ["a number per key" if limit.per_key else str(limit.max)]
    if limit.kind == "rate":
        words.append(f"per {limit.period / 1e6:g} s")
    if limit.kind == "rate" and limit.burst is not None:
        words.append(f"with burst {limit.burst}")
    if limit.when_full != "wait":
        words.append(f"with when_full={limit.when_full!r}")
    if limit.max_waiting is not None:
        words.append(f"with max_waiting={limit.max_waiting}, on_overflow={limit.on_overflow!r}")
    flags = {"with slots of sizes": limit.sized, "with estimated costs": limit.estimated}
    return " ".join(words + [flag for flag, there in flags.items() if there])
