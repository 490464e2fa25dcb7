"""The limits in force: declared values, operators' overrides, numbers of single keys.

Which number applies to a key (rule 18): the most specific override, else what the newest job of the key brought, else
what was computed or learnt for the key (floating and adaptive limits), else the declared value. A key that was
throttled opens slowly, whatever its number is. Caps of tasks and queues apply to every job of theirs, whenever it was
enqueued: they are looked up when a job is decided on, not stored with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import KeyNumbers, Limit, Override, ShareWeight
from headgate.engine.rules.admission import Cap, Gate, Rule
from headgate.engine.rules.full import Policy, policy_of
from headgate.errors import ConfigError
from headgate.keys import Key, Use, slots
from headgate.rates import Pace

T = TypeVar("T")
Scope = tuple[str, str | None, str | None]
"""What an override speaks for: name, value, tenant."""
KEEP_NUMBERS = 3600 * SECOND
"""How long the numbers of an idle key are kept: then a sweep forgets them, and the declared number applies again."""


class Resolved(dict[str, T]):
    """What is known of keys, each resolved when it is first asked for. Asked several times per job: for a key that is
    known no function of ours is called."""

    def __init__(self, resolve: Callable[[str], T]) -> None:
        self._resolve = resolve

    def __missing__(self, key: str) -> T:
        if len(self) > 100_000:
            self.clear()
        found = self[key] = self._resolve(key)
        return found


class RuleBook:
    """All limits of a store. Small: names, overrides, numbers of single keys, throttled keys; never the keys in use."""

    def __init__(self) -> None:
        self.limits: dict[str, Limit] = {}
        self.overrides: dict[Scope, Override] = {}
        self.numbers: dict[str, KeyNumbers] = {}
        self.gates: dict[str, Gate] = {}
        self.declared_weights: dict[str, ShareWeight] = {}
        self.weights: dict[str, ShareWeight] = {}
        self.version: int | None = None
        self._rules: Resolved[Rule] = Resolved(self._resolve)
        self.rule: Callable[[str], Rule] = self._rules.__getitem__
        """The rule in force for a key."""
        self._caps: dict[tuple[str, str], tuple[Use, ...]] = {}
        self._policies: Resolved[Policy | None] = Resolved(self._policy)
        self.policy: Callable[[str], Policy | None] = self._policies.__getitem__
        """What a key's limit does when there is no room."""

    def changed(self) -> None:
        """Forget what was derived; called after any change of the three tables."""
        self._rules.clear()
        self._caps.clear()
        self._policies.clear()

    def _resolve(self, ident: str) -> Rule:
        key = Key.of(ident)
        limit = self.limits.get(key.name)
        number = self.number(key)
        if not key.rate:
            return Cap(number, limit is not None and limit.sized, self.gates.get(ident))
        if limit is None or limit.kind != "rate":
            return Pace(None, 1, 1)
        burst = 1 if limit.algorithm == "leaky" else limit.burst if limit.burst is not None else number
        return Pace(number, limit.period, burst or 1, limit.algorithm == "sliding_window", limit.estimated)

    def _policy(self, ident: str) -> Policy | None:
        return policy_of(self.limits.get(Key.of(ident).name))

    def number(self, key: Key) -> int | None:
        """The number in force: override, brought, computed, declared."""
        override = self.override(key)
        return self.number_without_override(key) if override is None else override.max

    def number_without_override(self, key: Key) -> int | None:
        """What would be in force if operators had not spoken."""
        limit = self.limits.get(key.name)
        if limit is None or (limit.kind == "rate") != key.rate:
            return None
        if not (limit.per_key or learns(limit)) or (numbers := self.numbers_of(key.ident)) is None:
            return limit.max
        if limit.per_key and numbers.brought is not None:
            return numbers.brought
        return numbers.computed if learns(limit) and numbers.computed is not None else limit.max

    def own_numbers(self, key: Key, limit: Limit) -> KeyNumbers:
        """What is special about a key's number, as far as its limit heeds it."""
        found = self.numbers_of(key.ident) if limit.per_key or learns(limit) else None
        return found or KeyNumbers(0)

    def numbers_of(self, ident: str) -> KeyNumbers | None:
        """What is special about a key's number, whether its limit heeds it or not."""
        return self.numbers.get(ident)

    def override(self, key: Key) -> Override | None:
        """The most specific override that speaks for a key."""
        if not self.overrides:
            return None
        tenant = key.tenant or None
        scopes: list[Scope] = [(key.name, None, tenant), (key.name, None, None)]
        if key.value is not None:
            scopes = [(key.name, key.value, tenant), (key.name, key.value, None), *scopes]
        return next((self.overrides[scope] for scope in scopes if scope in self.overrides), None)

    def weight(self, share: str) -> float:
        """The weight of a fair share: an operator's word, else what code declared, else 1."""
        said = self.weights.get(share) or self.declared_weights.get(share)
        return 1.0 if said is None else said.weight

    def declared_weight(self, share: str) -> float | None:
        """What code declared."""
        declared = self.declared_weights.get(share)
        return None if declared is None else declared.weight

    def cap_of(self, scope: Scope) -> Cap | None:
        """The cap that is in force for every key in a scope; None where the keys may differ, and for rates."""
        name, value, tenant = scope
        limit = self.limits.get(name)
        if limit is not None and (limit.kind != "concurrency" or limit.adaptive or limit.per_key):
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
        bounds_the_backlog = limit is not None and limit.max is None and limit.max_waiting is not None
        return (limit is not None and not bounds_the_backlog) or self.override(key) is not None

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


def declared_anew(known: Limit | None, limit: Limit) -> Limit:
    """What a store keeps when a limit is declared that it may know already: the newest word counts.

    What comes with single jobs (`by_job`) does not change the number of other keys: where it is not the declared one,
    jobs bring their numbers from now on (`per_key`). They do not stop to when another process, which has not seen two
    numbers, declares the limit again.
    """
    if known is None:
        return msgspec.structs.replace(limit, by_job=False)
    if not limit.by_job:
        return msgspec.structs.replace(limit, per_key=limit.per_key or known.per_key)
    per_key = limit.per_key or known.per_key or limit.max != known.max
    return msgspec.structs.replace(limit, max=known.max, per_key=per_key, by_job=False)


def learns(limit: Limit) -> bool:
    """Whether numbers that were computed or learnt for its keys count."""
    return limit.adaptive or limit.kind == "floating"


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
