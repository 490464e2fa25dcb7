"""The limits in force: declared values, operators' overrides, computed numbers.

Which number applies to a key: the most specific override, else what was computed for the key (floating limits), else
the declared value. Caps of tasks and queues apply to every job of theirs, whenever it was enqueued: they are looked
up when a job is decided on, not stored with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Override
from headgate.engine.rules.admission import Cap, Rule
from headgate.errors import ConfigError
from headgate.keys import Key, Use, slots
from headgate.rates import Pace

Scope = tuple[str, str | None, str | None]
"""What an override speaks for: name, value, tenant."""
Computed = tuple[int, int]
"""The number that was computed for a key of a floating limit, and when."""
KEEP_COMPUTED = 3600 * SECOND
"""How long the number of an idle key is kept: a sweep forgets it after that, and the declared number applies again."""


class Resolved(dict[str, Rule]):
    """Rules by key, each resolved when it is first asked for. Asked several times per job: for a key that is known no
    function of ours is called."""

    def __init__(self, resolve: Callable[[str], Rule]) -> None:
        self._resolve = resolve

    def __missing__(self, key: str) -> Rule:
        if len(self) > 100_000:
            self.clear()
        rule = self[key] = self._resolve(key)
        return rule


class RuleBook:
    """All limits of a store. Small: names, overrides and computed numbers, never the keys in use."""

    def __init__(self) -> None:
        self.limits: dict[str, Limit] = {}
        self.overrides: dict[Scope, Override] = {}
        self.computed: dict[str, Computed] = {}
        self.version: int | None = None
        self._rules = Resolved(self._resolve)
        self.rule: Callable[[str], Rule] = self._rules.__getitem__
        """The rule in force for a key."""
        self._caps: dict[tuple[str, str], tuple[Use, ...]] = {}

    def changed(self) -> None:
        """Forget what was derived; called after any change of the three tables."""
        self._rules.clear()
        self._caps.clear()

    def _resolve(self, ident: str) -> Rule:
        key = Key.of(ident)
        limit = self.limits.get(key.name)
        number = self.number(key)
        if not key.rate:
            return Cap(number)
        if limit is None or limit.kind != "rate":
            return Pace(None, 1, 1)
        burst = 1 if limit.algorithm == "leaky" else limit.burst if limit.burst is not None else number
        return Pace(number, limit.period, burst or 1, limit.algorithm == "sliding_window")

    def number(self, key: Key) -> int | None:
        """The number in force: override, computed, declared."""
        if (override := self.override(key)) is not None:
            return override.max
        limit = self.limits.get(key.name)
        if limit is None or (limit.kind == "rate") != key.rate:
            return None
        computed = self.computed_for(key.ident) if limit.kind == "floating" else None
        return computed[0] if computed else limit.max

    def computed_for(self, ident: str) -> Computed | None:
        """What was computed for a key, also where the limit is not floating any more."""
        return self.computed.get(ident)

    def override(self, key: Key) -> Override | None:
        """The most specific override that speaks for a key."""
        if not self.overrides:
            return None
        tenant = key.tenant or None
        scopes: list[Scope] = [(key.name, None, tenant), (key.name, None, None)]
        if key.value is not None:
            scopes = [(key.name, key.value, tenant), (key.name, key.value, None), *scopes]
        return next((self.overrides[scope] for scope in scopes if scope in self.overrides), None)

    def cap_of(self, scope: Scope) -> Cap | None:
        """The cap that is in force for every key in a scope; None where the keys may differ, and for rates."""
        name, value, tenant = scope
        limit = self.limits.get(name)
        if limit is not None and limit.kind != "concurrency":
            return None
        if any(other[0] == name and other != scope for other in self.overrides):
            return None
        return Cap(self.number(Key(name, value, tenant or "")))

    def uses(self, task: str, queue: str, own: tuple[Use, ...]) -> tuple[Use, ...]:
        """A job's keys in canonical order, with the caps that its task and queue have now."""
        caps = self._caps.get((task, queue))
        if caps is None:
            caps = self._caps[(task, queue)] = self._find_caps(task, queue)
        if not caps:
            return own
        taken = {use.key for use in own}
        return tuple(sorted([*own, *(cap for cap in caps if cap.key not in taken)], key=canonical_order))

    def may_hold(self, task: str, queue: str, own: tuple[Use, ...]) -> list[str]:
        """Every key that a job can hold a slot of: also of caps that were in force only for a while."""
        keys = slots(own)
        caps = (Key(f"queue:{queue}").ident, Key(f"task:{task}").ident)
        return keys + [cap for cap in caps if cap not in keys]

    def _find_caps(self, task: str, queue: str) -> tuple[Use, ...]:
        keys = (Key(f"queue:{queue}"), Key(f"task:{task}"))
        return tuple(Use(key.ident) for key in keys if self.is_cap(key))

    def is_cap(self, key: Key) -> bool:
        """Whether a key is the cap of a task or queue that is in force now."""
        limit = self.limits.get(key.name)
        if limit is not None and limit.kind == "rate":
            return False
        return limit is not None or self.override(key) is not None

    def is_known(self, key: Key) -> bool:
        """Whether a key belongs to a limit of its kind that is declared, or to a cap that operators speak for."""
        limit = self.limits.get(key.name)
        if limit is None:
            return not key.rate and self.override(key) is not None
        return (limit.kind == "rate") == key.rate

    def check_kind(self, limit: Limit) -> None:
        """Refuse a declaration that would turn a limit into one of another kind."""
        known = self.limits.get(limit.name)
        if known is not None and known.kind != limit.kind:
            raise ConfigError(
                f"limit {limit.name!r} is declared as {known.kind} in this store, and now as {limit.kind}: jobs that "
                f"use the old one would no longer be limited. Give one of them another name (scope=…)"
            )

    def check_uses(self, uses: Iterable[Use], adding: Iterable[Limit] = ()) -> None:
        """Refuse uses of limits that no code declared: they would admit everything."""
        known = {limit.name: limit for limit in adding}
        for use in uses:
            key = Key.of(use.key)
            limit = known.get(key.name) or self.limits.get(key.name)
            if limit is None:
                raise ConfigError(f"limit {key.name!r} is not declared; declare it in the app that enqueues")
            if (limit.kind == "rate") != key.rate:
                raise ConfigError(
                    f"limit {key.name!r} is declared as {limit.kind}, but this job uses it otherwise"
                )


def canonical_order(use: Use) -> tuple[bool, str, str]:
    """The sort key of rule 6."""
    key = Key.of(use.key)
    return key.rate, key.text, key.tenant


def gives_room(before: Cap | None, after: Cap | None) -> bool:
    """Whether a change of a scope's cap can give any of its keys room; where the cap is not known, it may."""
    if before is None or after is None:
        return True
    return before.max is not None and (after.max is None or after.max > before.max)


def in_scope(key: Key, scope: Scope) -> bool:
    """Whether a change of this scope can change the number of a key."""
    name, value, tenant = scope
    return key.name == name and value in (None, key.value) and tenant in (None, key.tenant)


def may_be_overridden(book: RuleBook, name: str) -> bool:
    """Declared limits can be overridden, and the caps of any task and queue, declared or not."""
    return name in book.limits or name.startswith(("task:", "queue:"))
