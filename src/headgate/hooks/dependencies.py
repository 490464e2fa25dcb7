"""Dependencies: parameters of a task that its worker fills, `client: Annotated[Client, Depends(make_client)]`.

A factory is a function, an async function, or a generator or context manager function of either kind, whose part after
the `yield` closes what it made. It may have dependencies of its own, and may ask for the `JobContext`. All that can
be wrong with one is refused when the task is declared. What is to be made, in which order, is worked out once
per task (a plan), and anew only when a test puts another factory in the place of one.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from headgate.errors import ConfigError
from headgate.hooks.context import JobContext
from headgate.hooks.listeners import shown
from headgate.signatures import parameters

Per = Literal["process", "attempt"]
Kind = Literal["function", "coroutine", "manager", "async_manager"]
Factory = Callable[..., Any]
HintsOf = Callable[[Any], dict[str, Any]]
"""Reads the annotations of a function."""


class Dependency(NamedTuple):
    """What `Depends(…)` makes: a factory, and for how long one of what it makes is used."""

    factory: Factory
    per: Per

    def __repr__(self) -> str:
        return f"Depends({shown(self.factory)}, per={self.per!r})"


def Depends(factory: Factory, *, per: Per = "attempt") -> Any:
    """A parameter that the worker fills: `Annotated[Client, Depends(make_client)]`, or as its default.

    `per="attempt"` makes one for each attempt that needs it, and closes it with the attempt; `per="process"` one for
    the worker, made when it is first needed and closed when the worker stops.
    """
    if not callable(factory):
        raise ConfigError(f"Depends({factory!r}): a function that makes what the task needs")
    if per not in get_args(Per):
        raise ConfigError(f"Depends(…, per={per!r}): 'attempt' or 'process' is needed")
    return Dependency(factory, per)


class Shape(NamedTuple):
    """A factory as it is called."""

    call: Factory
    kind: Kind
    needs: Mapping[str, Dependency | None]
    """What its parameters are filled with; None stands for the JobContext."""


class Step(NamedTuple):
    """One thing to make; `needs` are the places of earlier steps, None the JobContext."""

    factory: Factory
    shape: Shape
    per: Per
    needs: Mapping[str, int | None]

    @property
    def on_loop(self) -> bool:
        """Whether it cannot be made in a task's thread."""
        return self.per == "process" or self.shape.kind in ("coroutine", "async_manager")


class Plan(NamedTuple):
    """What to make for one task, each thing after those that it needs."""

    steps: tuple[Step, ...]
    wanted: Mapping[str, int]
    """The task's parameters, and the steps that make what they are filled with."""
    on_loop: frozenset[int]
    """The steps that must be made on the event loop even if the task runs in a thread."""


def shape_of(factory: Factory, hints_of: HintsOf) -> Shape:
    """Look at a factory; refuse one with parameters that nothing fills."""
    found = hints_of(factory.__init__ if inspect.isclass(factory) else factory)
    needs: dict[str, Dependency | None] = {}
    for parameter in _parameters(factory):
        hint = found.get(parameter.name)
        if (dependency := dependency_of(parameter, hint)) is not None:
            needs[parameter.name] = dependency
        elif hint is JobContext:
            needs[parameter.name] = None
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise ConfigError(
                f"Depends({shown(factory)}): nothing fills its parameter {parameter.name!r}; annotate it with "
                "Annotated[…, Depends(…)] or JobContext, or give it a default"
            )
        if parameter.name in needs and parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(
                f"Depends({shown(factory)}): parameter {parameter.name!r} must have a name to call"
            )
    return Shape(*_called(factory), needs)


def _parameters(factory: Factory) -> list[inspect.Parameter]:
    try:
        return parameters(factory)
    except (TypeError, ValueError):  # built-in types do not say
        return []


def _called(factory: Factory) -> tuple[Factory, Kind]:
    """How to call a factory. What a decorator such as @asynccontextmanager made of a generator is told by what is
    inside; objects that happen to be context managers are handed over as they are."""
    inner = inspect.unwrap(factory)
    if inspect.isasyncgenfunction(inner):
        return contextlib.asynccontextmanager(factory) if factory is inner else factory, "async_manager"
    if inspect.isgeneratorfunction(inner):
        return contextlib.contextmanager(factory) if factory is inner else factory, "manager"
    method = None if inspect.isclass(factory) else getattr(factory, "__call__", None)  # noqa: B004
    is_async = inspect.iscoroutinefunction(factory) or inspect.iscoroutinefunction(method)
    return factory, "coroutine" if is_async else "function"


def dependency_of(parameter: inspect.Parameter, hint: Any) -> Dependency | None:
    """The dependency in an annotation or default, if there is one."""
    notes = get_args(hint)[1:] if get_origin(hint) is typing.Annotated else ()
    found = [note for note in (*notes, parameter.default) if isinstance(note, Dependency)]
    if len(found) > 1:
        raise ConfigError(f"parameter {parameter.name!r}: {found[0]} and {found[1]} exclude each other")
    return found[0] if found else None


class Planner:
    """Works out plans with the factories that stand in for others at the moment."""

    def __init__(self, shape: Callable[[Factory], Shape], overrides: Mapping[Factory, Factory]) -> None:
        self._shape = shape
        self._overrides = overrides
        self._steps: list[Step] = []
        self._places: dict[Dependency, int] = {}
        self._open: list[Dependency] = []

    def plan(self, wanted: Mapping[str, Dependency]) -> Plan:
        """The plan for a task that wants these."""
        places = {name: self._place(dependency) for name, dependency in wanted.items()}
        return Plan(tuple(self._steps), places, frozenset(self._on_loop()))

    def _place(self, asked: Dependency) -> int:
        dependency = Dependency(self._overrides.get(asked.factory, asked.factory), asked.per)
        if dependency in self._places:
            return self._places[dependency]
        if dependency in self._open:
            way = " → ".join(shown(each.factory) for each in (*self._open, dependency))
            raise ConfigError(f"{dependency} depends on itself: {way}")
        self._open.append(dependency)
        shape = self._shape(dependency.factory)
        needs = {name: self._need(dependency, need) for name, need in shape.needs.items()}
        self._open.pop()
        self._steps.append(Step(dependency.factory, shape, dependency.per, needs))
        self._places[dependency] = len(self._steps) - 1
        return self._places[dependency]

    def _need(self, owner: Dependency, need: Dependency | None) -> int | None:
        if owner.per == "process" and (need is None or need.per == "attempt"):
            what = "the JobContext" if need is None else repr(need)
            raise ConfigError(
                f"{owner} is made once per process and cannot depend on {what}, which is per attempt"
            )
        return None if need is None else self._place(need)

    def _on_loop(self) -> set[int]:
        found: set[int] = set()
        for place, step in reversed(list(enumerate(self._steps))):
            if step.on_loop or place in found:
                found.add(place)
                found.update(need for need in step.needs.values() if need is not None)
        return found
