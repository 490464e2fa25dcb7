"""What a user declares: concurrency, rate and floating limits.

All three can stand in `Annotated[...]` on a parameter, as the default of a parameter of their own, in
`@app.task(limits=[...])` and in `task.options(limits=[...])`. What differs between jobs of one limit is its *key*:

- nothing said: the annotated parameter's value; elsewhere the limit has one key only;
- parameter names, as the first positional arguments: their values together;
- `key=`: a template over the arguments (`"{order.region}:{db}"`, braces doubled to mean themselves), a plain value, or
  a function whose parameters are named like the task's; a function that returns None leaves the limit out for that job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast, get_args

from headgate.clock import SECOND, duration_us
from headgate.engine.contract import Algorithm, Limit
from headgate.errors import ConfigError
from headgate.keys import check_name

MAX_NUMBER = 2**31 - 1

Key = Any
"""A template, a plain value, or a function of the arguments."""


def check_max(value: Any, what: str) -> int:
    """A whole number from 0; True is not a number here."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{what} must be a whole number, not {value!r}")
    if not 0 <= value <= MAX_NUMBER:
        raise ConfigError(f"{what} must be from 0 (closed) to {MAX_NUMBER:,}, not {value}")
    return value


class DeclaredLimit:
    """What the three kinds share: whose values form the key, what the limit is called, whether tenants share it."""

    __slots__ = ("key", "params", "scope", "shared")

    def __init__(self, params: tuple[str, ...], scope: str | None, key: Key, shared: bool) -> None:
        if params and key is not None:
            raise ConfigError(
                f"{type(self).__name__}: parameter names {params} and key={key!r} exclude each other"
            )
        self.params = params
        self.scope = None if scope is None else check_name(scope, f"{type(self).__name__}(scope=)")
        self.key = key
        self.shared = shared

    def record(self, name: str) -> Limit | None:
        """What the store is told of it; None where that is not for this declaration to say."""
        raise NotImplementedError

    def _numbers(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        rest = {"scope": self.scope, "key": self.key, "shared": self.shared or None}
        named = [f"{name}={value!r}" for name, value in (self._numbers() | rest).items() if value is not None]
        return f"{type(self).__name__}({', '.join([*map(repr, self.params), *named])})"


def _number_or_names(
    kind: str, word: str, first: tuple[Any, ...], named: int | None
) -> tuple[int, tuple[str, ...]]:
    """The positional arguments are the number, or parameter names with the number given by its keyword."""
    given = list(
        cast("Iterable[Any]", first[0] if len(first) == 1 and isinstance(first[0], list | tuple) else first)
    )
    if given and not isinstance(given[0], str):
        if named is not None or len(given) > 1:
            raise ConfigError(
                f"{kind}: give its number once, and {word}= only beside parameter names, not {first!r}"
            )
        named, given = given[0], []
    if named is None:
        raise ConfigError(f"{kind} needs its number: {kind}(5, …) or {kind}('parameter', {word}=5, …)")
    return check_max(named, f"{kind}({word}=)"), check_params(tuple(given), kind)


def check_params(names: tuple[Any, ...], kind: str) -> tuple[str, ...]:
    """Parameter names are identifiers; whether the task has them is seen where the task is declared."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise ConfigError(f"{kind}: {name!r} is not a parameter name; a template goes into key=")
    return names


class ConcurrencyLimit(DeclaredLimit):
    """At most `max_concurrent` jobs of one key run at once. 0 closes it."""

    __slots__ = ("max_concurrent",)

    def __init__(
        self,
        *first: int | str | list[str] | tuple[str, ...],
        max_concurrent: int | None = None,
        scope: str | None = None,
        key: Key = None,
        shared: bool = False,
    ) -> None:
        number, names = _number_or_names("ConcurrencyLimit", "max_concurrent", first, max_concurrent)
        super().__init__(names, scope, key, shared)
        self.max_concurrent = number

    def record(self, name: str) -> Limit:
        """The number at once."""
        return Limit(name, "concurrency", self.max_concurrent)

    def _numbers(self) -> dict[str, Any]:
        return {"max_concurrent": self.max_concurrent}


class RateLimit(DeclaredLimit):
    """At most `limit` starts of one key `per` so many seconds.

    `token_bucket` lets up to `burst` (default: `limit`) start together after a quiet time; `leaky` spreads starts
    evenly; `sliding_window` never sees more than `limit` in any period. `cost` is what one start takes: a number, the
    name of a parameter that says it, or a function of the arguments; 0 takes nothing.
    """

    __slots__ = ("algorithm", "burst", "cost", "limit", "period")

    def __init__(
        self,
        *first: int | str | list[str] | tuple[str, ...],
        per: float | timedelta,
        limit: int | None = None,
        burst: int | None = None,
        algorithm: Algorithm = "token_bucket",
        cost: int | str | Callable[..., int] = 1,
        scope: str | None = None,
        key: Key = None,
        shared: bool = False,
    ) -> None:
        self.limit, names = _number_or_names("RateLimit", "limit", first, limit)
        super().__init__(names, scope, key, shared)
        self.period = duration_us(per, "RateLimit(per=)")
        self.algorithm: Algorithm = algorithm
        self.burst = self._check_burst(burst)
        self.cost = cost
        self._check_pace()
        self.check_cost(cost if isinstance(cost, int) else 1)

    def record(self, name: str) -> Limit:
        """The starts per period."""
        return Limit(name, "rate", self.limit, self.period, self.burst, self.algorithm)

    def _check_burst(self, burst: int | None) -> int | None:
        if self.algorithm not in get_args(Algorithm):
            raise ConfigError(
                f"RateLimit(algorithm={self.algorithm!r}): one of {', '.join(get_args(Algorithm))} is needed"
            )
        if burst is None:
            return 1 if self.algorithm == "leaky" else None
        if self.algorithm != "token_bucket":
            raise ConfigError(
                f"RateLimit(burst={burst!r}): only token_bucket has a burst, not {self.algorithm}"
            )
        if check_max(burst, "RateLimit(burst=)") == 0:
            raise ConfigError(
                "RateLimit(burst=0) would never start anything; use 1 or more, or limit=0 to close it"
            )
        return burst

    def _check_pace(self) -> None:
        if self.period == 0:
            raise ConfigError(f"RateLimit({self.limit}, per=0): the period must be longer than nothing")
        if self.limit > self.period:
            raise ConfigError(
                f"RateLimit({self.limit}, per={self.period / SECOND:g}): more than one start per microsecond"
            )

    def _numbers(self) -> dict[str, Any]:
        return {"limit": self.limit, "per": self.period / SECOND}

    @property
    def most(self) -> int:
        """The largest cost that can ever be paid."""
        return self.limit if self.burst is None else self.burst

    def check_cost(self, cost: Any) -> int:
        """What one start takes; more than ever comes together would wait for ever."""
        if isinstance(cost, bool) or not isinstance(cost, int) or cost < 0:
            raise ConfigError(f"cost of a RateLimit must be a whole number from 0, not {cost!r}")
        if self.limit and cost > self.most:
            raise ConfigError(
                f"cost {cost} of a RateLimit is above its burst of {self.most}: such a job could never start; "
                "raise burst= or lower the cost"
            )
        return cost


class FloatingLimit(DeclaredLimit):
    """A concurrency limit whose number is computed by the function that `@app.floating_limit(name)` registered."""

    __slots__ = ()

    def __init__(self, name: str, *params: str, key: Key = None, shared: bool = False) -> None:
        super().__init__(check_params(params, "FloatingLimit"), name, key, shared)

    def record(self, name: str) -> None:
        """The store hears of it from its `FloatingRule`."""


class FloatingRule:
    """How a floating limit's number is found: `function(limit)` every `every` microseconds, `default` until then."""

    __slots__ = ("default", "every", "function", "metadata", "name")

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Any],
        default: int,
        every: int,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = check_name(name, "floating limit")
        self.function = function
        self.default = check_max(default, f"floating_limit({name!r}, default=)")
        if every < SECOND:
            raise ConfigError(
                f"floating_limit({name!r}, every={every / SECOND:g}): at least 1 second is needed"
            )
        self.every = every
        self.metadata: Mapping[str, Any] = dict(metadata or {})

    @property
    def record(self) -> Limit:
        """What the store is told of it: its number is the default until one was computed."""
        return Limit(self.name, "floating", self.default)
