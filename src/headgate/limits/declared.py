"""What a user declares: concurrency, rate and floating limits.

All three can stand in `Annotated[...]` on a parameter, as the default of a parameter of their own, in
`@app.task(limits=[...])` and in `task.options(limits=[...])`. What differs between jobs of one limit is its *key*:

- nothing said: the annotated parameter's value; elsewhere the limit has one key only;
- parameter names, as the first positional arguments: their values together;
- `key=`: a template over the arguments (`"{order.region}:{db}"`, braces doubled to mean themselves), a plain value, or
  a function whose parameters are named like the task's; a function that returns None leaves the limit out for that job.

A number can differ from key to key: `max_concurrent=` and `limit=` may name an argument or be a function of them.
What a job finds there is in force for its key; where it finds None, the key's number stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast, get_args

from headgate.clock import SECOND, duration_us
from headgate.engine.contract import Algorithm, Limit, Overflow, WhenFull
from headgate.errors import ConfigError
from headgate.keys import check_name
from headgate.limits.adapt import Adapt, Adaptive

MAX_NUMBER = 2**31 - 1

Key = Any
"""A template, a plain value, or a function of the arguments."""

Number = int | str | Callable[..., int | None]
"""A number, the name of the argument that says it, or a function of the arguments."""

Cost = int | str | Callable[..., int]
USUAL_OVERFLOW: Overflow = "refuse"
ESTIMATE = "estimate"
"""A cost that is read from an argument of this name is one: attempts say afterwards what they really spent."""


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

    @property
    def number(self) -> Number | None:
        """How many, or how to know it from a job's arguments; None where that is not for this declaration to say."""
        return None

    @property
    def adaptive(self) -> Adaptive | None:
        """How its keys learn; None where they do not."""
        return None

    def record(self, name: str) -> Limit | None:
        """What the store is told of it; None where that is not for this declaration to say."""
        raise NotImplementedError

    def check_number(self, number: int) -> int:
        """A number that a job brings."""
        return number

    def _numbers(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        rest = {"scope": self.scope, "key": self.key, "shared": self.shared or None}
        named = [f"{name}={value!r}" for name, value in (self._numbers() | rest).items() if value is not None]
        return f"{type(self).__name__}({', '.join([*map(repr, self.params), *named])})"


def _number_or_names(
    kind: str, word: str, first: tuple[Any, ...], named: Number | None
) -> tuple[Number, tuple[str, ...]]:
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
    return _check_number(named, f"{kind}({word}=)"), check_params(tuple(given), kind)


def _check_number(number: Any, what: str) -> Number:
    if isinstance(number, str):
        if not number.isidentifier():
            raise ConfigError(f"{what[:-1]}{number!r}): the name of an argument is needed, or a number")
        return number
    return cast("Number", number) if callable(number) else check_max(number, what)


def check_backlog(max_waiting: Any, on_overflow: Any, what: str) -> tuple[int | None, Overflow]:
    """How many may wait, and what becomes of those beyond; the latter means nothing without the former."""
    if max_waiting is None:
        if on_overflow is not None:
            raise ConfigError(
                f"{what}: on_overflow={on_overflow!r} belongs to max_waiting=, which is missing"
            )
        return None, USUAL_OVERFLOW
    if check_max(max_waiting, f"{what}: max_waiting=") == 0:
        raise ConfigError(f"{what}: max_waiting=0 would let nothing wait; when_full='drop' does that")
    said = USUAL_OVERFLOW if on_overflow is None else on_overflow
    return max_waiting, _one_of(said, Overflow, f"{what}: on_overflow=")


def _one_of(value: Any, choice: Any, what: str) -> Any:
    if value not in get_args(choice):
        raise ConfigError(f"{what}{value!r}: one of {', '.join(get_args(choice))} is needed")
    return value


def _check_units(cost: Any, kind: str) -> int:
    if isinstance(cost, bool) or not isinstance(cost, int) or cost < 0:
        raise ConfigError(f"cost of a {kind} must be a whole number from 0, not {cost!r}")
    return cost


def check_params(names: tuple[Any, ...], kind: str) -> tuple[str, ...]:
    """Parameter names are identifiers; whether the task has them is seen where the task is declared."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise ConfigError(f"{kind}: {name!r} is not a parameter name; a template goes into key=")
    return names


class ConcurrencyLimit(DeclaredLimit):
    """At most `max_concurrent` jobs of one key run at once. 0 closes it.

    `cost` is how many of the slots a job takes: a number, the name of an argument, or a function of the arguments; 0
    takes none. `when_full` says what becomes of a job that finds no slot: "wait"; "drop", it ends as cancelled;
    "replace", it takes the place of those that wait; "cancel", the one that has run longest is asked to stop.
    `max_waiting` bounds how many wait on one key, and `on_overflow` says what happens beyond: "refuse" raises
    BacklogFull, "drop_oldest" and "drop_newest" cancel one. With `adapt` the number of each key follows how its
    attempts end (`Adapt`); it begins at `max_concurrent`, and returns there when the key is idle.
    """

    __slots__ = ("adapt", "cost", "max_concurrent", "max_waiting", "on_overflow", "when_full")

    def __init__(
        self,
        *first: int | str | list[str] | tuple[str, ...] | Callable[..., int | None],
        max_concurrent: Number | None = None,
        cost: Cost = 1,
        when_full: WhenFull = "wait",
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
        adapt: Adapt | None = None,
        scope: str | None = None,
        key: Key = None,
        shared: bool = False,
    ) -> None:
        number, names = _number_or_names("ConcurrencyLimit", "max_concurrent", first, max_concurrent)
        super().__init__(names, scope, key, shared)
        self.max_concurrent = number
        self.cost = cost
        self.when_full: WhenFull = _one_of(when_full, WhenFull, "ConcurrencyLimit: when_full=")
        self.max_waiting, overflow = check_backlog(max_waiting, on_overflow, "ConcurrencyLimit")
        self.on_overflow: Overflow = overflow
        if self.when_full in ("drop", "replace") and self.max_waiting is not None:
            raise ConfigError(
                f"ConcurrencyLimit: with when_full={when_full!r} no backlog can grow; leave max_waiting= out"
            )
        if isinstance(cost, int):
            self.check_cost(cost)
        self.adapt = adapt
        if adapt is not None and not isinstance(number, int):
            raise ConfigError(
                "ConcurrencyLimit: with adapt= max_concurrent is the number to begin with, not a rule"
            )

    @property
    def number(self) -> Number:
        """The number at once."""
        return self.max_concurrent

    def record(self, name: str) -> Limit:
        """The number at once."""
        fixed = self.max_concurrent if isinstance(self.max_concurrent, int) else None
        return Limit(
            name,
            "concurrency",
            fixed,
            sized=self.cost != 1,
            adaptive=self.adapt is not None,
            per_key=fixed is None,
            when_full=self.when_full,
            max_waiting=self.max_waiting,
            on_overflow=self.on_overflow,
        )

    @property
    def adaptive(self) -> Adaptive | None:
        """How its keys learn, and the number that they begin with."""
        if self.adapt is None or not isinstance(self.max_concurrent, int):
            return None
        return Adaptive(self.adapt, self.max_concurrent)

    def check_cost(self, cost: Any, number: int | None = None) -> int:
        """How many slots one job takes; more than there are would wait for ever."""
        most = number if number is not None else self.max_concurrent
        if _check_units(cost, "ConcurrencyLimit") and isinstance(most, int) and 0 < most < cost:
            raise ConfigError(
                f"cost {cost} of {self!r} is above its maximum of {most}: such a job could never start; raise the "
                "maximum or lower the cost"
            )
        return cost

    def _numbers(self) -> dict[str, Any]:
        said = {"cost": (self.cost, 1), "when_full": (self.when_full, "wait")}
        return {"max_concurrent": self.max_concurrent} | {
            name: value for name, (value, usual) in said.items() if value != usual
        }


class RateLimit(DeclaredLimit):
    """At most `limit` starts of one key `per` so many seconds.

    `token_bucket` lets up to `burst` (default: `limit`) start together after a quiet time; `leaky` spreads starts
    evenly; `sliding_window` never sees more than `limit` in any period. `cost` is what one start takes: a number, the
    name of a parameter that says it, or a function of the arguments; 0 takes nothing. With `estimated` it is a guess,
    and attempts say with `current_job().spent(…)` what it really was; a parameter that is called `estimate` says so by
    its name. `max_waiting` and `on_overflow` are those of ConcurrencyLimit.
    """

    __slots__ = ("algorithm", "burst", "cost", "estimated", "limit", "max_waiting", "on_overflow", "period")

    def __init__(
        self,
        *first: int | str | list[str] | tuple[str, ...] | Callable[..., int | None],
        per: float | timedelta,
        limit: Number | None = None,
        burst: int | None = None,
        algorithm: Algorithm = "token_bucket",
        cost: Cost = 1,
        estimated: bool | None = None,
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
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
        self.estimated = cost == ESTIMATE if estimated is None else estimated
        self.max_waiting, overflow = check_backlog(max_waiting, on_overflow, "RateLimit")
        self.on_overflow: Overflow = overflow
        self._check_pace()
        self.check_cost(cost if isinstance(cost, int) else 1)

    @property
    def number(self) -> Number:
        """The starts per period."""
        return self.limit

    def record(self, name: str) -> Limit:
        """The starts per period."""
        fixed = self.limit if isinstance(self.limit, int) else None
        return Limit(
            name,
            "rate",
            fixed,
            self.period,
            self.burst,
            self.algorithm,
            estimated=self.estimated,
            per_key=fixed is None,
            max_waiting=self.max_waiting,
            on_overflow=self.on_overflow,
        )

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
        if isinstance(self.limit, int):
            self.check_number(self.limit)

    def check_number(self, number: int) -> int:
        """The starts per period."""
        if number > self.period:
            raise ConfigError(
                f"RateLimit({number}, per={self.period / SECOND:g}): more than one start per microsecond"
            )
        return number

    def _numbers(self) -> dict[str, Any]:
        return {"limit": self.limit, "per": self.period / SECOND}

    def check_cost(self, cost: Any, number: int | None = None) -> int:
        """What one start takes; more than ever comes together would wait for ever."""
        limit = number if number is not None else self.limit
        most = limit if self.burst is None else self.burst
        if _check_units(cost, "RateLimit") and limit and isinstance(most, int) and cost > most:
            raise ConfigError(
                f"cost {cost} of a RateLimit is above its burst of {most}: such a job could never start; "
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

    __slots__ = ("default", "every", "function", "max_waiting", "metadata", "name", "on_overflow")

    def __init__(
        self,
        name: str,
        function: Callable[[Any], Any],
        default: int,
        every: int,
        metadata: Mapping[str, Any] | None = None,
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
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
        self.max_waiting, overflow = check_backlog(max_waiting, on_overflow, f"floating_limit({name!r})")
        self.on_overflow: Overflow = overflow

    @property
    def record(self) -> Limit:
        """What the store is told of it: its number is the default until one was computed."""
        return Limit(
            self.name,
            "floating",
            self.default,
            max_waiting=self.max_waiting,
            on_overflow=self.on_overflow,
        )
