"""A limit that comes with a job from another system, as plain values."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headgate.engine.contract import Algorithm, Overflow, WhenFull
from headgate.errors import ConfigError
from headgate.limits.declared import ConcurrencyLimit, DeclaredLimit, FloatingLimit, RateLimit
from headgate.limits.template import escaped


class ImportLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A limit of one job, on top of its task's, as `task.options(limits=[…])` takes it. The names are those of
    `headgate limits --json`; `key` is a plain value, `per` is seconds."""

    name: str
    kind: Literal["concurrency", "rate", "floating"] = "concurrency"
    max: int | None = None
    key: str | int | float | bool | None = None
    per: float | None = None
    burst: int | None = None
    algorithm: Algorithm | None = None
    cost: int = 1
    estimated: bool | None = None
    when_full: WhenFull | None = None
    max_waiting: int | None = None
    on_overflow: Overflow | None = None
    shared: bool = False

    def limit(self) -> DeclaredLimit:
        """The same as it is declared in code, checked."""
        key = escaped(self.key)
        match self.kind:
            case "concurrency":
                self._only("max", "cost", "when_full", "max_waiting", "on_overflow")
                return self._concurrency(key)
            case "floating":
                self._only()
                return FloatingLimit(self.name, key=key, shared=self.shared)
            case "rate":
                return self._rate(key)

    def _concurrency(self, key: Any) -> ConcurrencyLimit:
        return ConcurrencyLimit(
            self._max(),
            cost=self.cost,
            when_full=self.when_full or "wait",
            max_waiting=self.max_waiting,
            on_overflow=self.on_overflow,
            scope=self.name,
            key=key,
            shared=self.shared,
        )

    def _rate(self, key: Any) -> RateLimit:
        if self.when_full is not None:
            raise ConfigError(f"limit {self.name!r}: when_full has no meaning for a rate limit")
        if self.per is None:
            raise ConfigError(f"limit {self.name!r}: a rate needs per, its period in seconds")
        return RateLimit(
            self._max(),
            per=self.per,
            burst=self.burst,
            algorithm=self.algorithm or "token_bucket",
            cost=self.cost,
            estimated=self.estimated,
            max_waiting=self.max_waiting,
            on_overflow=self.on_overflow,
            scope=self.name,
            key=key,
            shared=self.shared,
        )

    def _max(self) -> int:
        if self.max is None:
            raise ConfigError(f"limit {self.name!r}: a {self.kind} limit needs max, its number")
        return self.max

    def _only(self, *allowed: str) -> None:
        """Refuse what has no meaning for this kind."""
        for name, without in (
            ("max", None),
            ("per", None),
            ("burst", None),
            ("algorithm", None),
            ("cost", 1),
            ("estimated", None),
            ("when_full", None),
            ("max_waiting", None),
            ("on_overflow", None),
        ):
            if name not in allowed and getattr(self, name) != without:
                raise ConfigError(f"limit {self.name!r}: {name} has no meaning for a {self.kind} limit")


def as_declared(given: Any) -> DeclaredLimit:
    """An `ImportLimit`, a mapping of its fields or a declared limit, as code declares it."""
    if isinstance(given, DeclaredLimit):
        return given
    return (given if isinstance(given, ImportLimit) else msgspec.convert(given, ImportLimit)).limit()
