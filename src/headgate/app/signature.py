"""A task function's signature: which arguments travel, of which types, and the limits that stand in it.

Calls are bound to names once, at enqueue; the payload is an object by name, and the worker's call is made from it.
Arguments that were left out stay out: the function's own defaults apply where it runs.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from headgate.app.options import JobOptions
from headgate.errors import ConfigError, PayloadError
from headgate.hooks.dependencies import Dependency, dependency_of
from headgate.limits.in_signature import LimitInSignature, limit_by_default, split_annotation
from headgate.limits.parameters import Parameters
from headgate.own_types import NO_OWN, OwnTypes
from headgate.signatures import parameters

_HINTS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""Annotations that were found with the help of local names, by function. A set's task is declared anew by the app that
includes the set, when those names may be gone."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class TaskSignature:
    """What a task function takes and returns."""

    def __init__(self, function: Callable[..., Any], task: str, own: OwnTypes = NO_OWN) -> None:
        self._task = task
        hints = hints_of(function, task)
        self.returns: Any = hints.get("return", Any)
        self.types: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.parameters = Parameters(task, self.types, self.defaults, own)
        self.limits: list[LimitInSignature] = []
        self.dependencies: dict[str, Dependency] = {}
        self._kinds: dict[str, Any] = {}
        self._in_front: list[str] = []
        for parameter in _parameters(function, task):
            self._take(parameter, hints.get(parameter.name, Any))
        self._compile()

    def _take(self, parameter: inspect.Parameter, hint: Any) -> None:
        name = parameter.name
        if (stands_for := limit_by_default(parameter)) is not None:
            self.limits.append(stands_for)
            return
        if (dependency := dependency_of(parameter, hint)) is not None:
            self._fill(parameter, dependency)
            return
        kind, limits = split_annotation(self._task, name, hint)
        self.limits += limits
        self._kinds[name] = parameter.kind
        self.types[name] = _wire_type(parameter.kind, kind)
        if parameter.default is not parameter.empty:
            self.defaults[name] = parameter.default
        elif parameter.kind is parameter.VAR_POSITIONAL:
            self.defaults[name] = ()
        elif parameter.kind is parameter.VAR_KEYWORD:
            self.defaults[name] = {}

    def _fill(self, parameter: inspect.Parameter, dependency: Dependency) -> None:
        """The worker passes it by name: it is no argument of the job."""
        if parameter.kind not in _KEYWORD:
            raise ConfigError(
                f"parameter {parameter.name!r} of task {self._task!r}: what Depends(…) makes is passed by name, so the "
                "parameter must have one to call"
            )
        self.dependencies[parameter.name] = dependency
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            self._in_front.append(parameter.name)

    def _compile(self) -> None:
        kinds = self._kinds
        self._positional = tuple(name for name, kind in kinds.items() if kind in _POSITIONAL)
        self._keyword = frozenset(name for name, kind in kinds.items() if kind in _KEYWORD)
        self._required = frozenset(self.types) - self.defaults.keys()
        self._first = tuple(name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_ONLY)
        self._rest = next(
            (name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL), None
        )
        self._extra = next(
            (name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), None
        )
        self._all_positional = self._positional == tuple(self.types)
        if self._rest is not None and (late := self._in_front):
            raise ConfigError(f"task {self._task!r}: put {', '.join(late)} behind *{self._rest}")

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's arguments by name."""
        if not kwargs and self._all_positional and len(args) == len(self._positional):
            return dict(zip(self._positional, args, strict=True))
        values = dict(zip(self._positional, args, strict=False))
        if len(args) > len(self._positional):
            if self._rest is None:
                most = len(self._positional)
                raise self._misfit(
                    f"takes {most} positional argument{'s' * (most != 1)}, {len(args)} were given"
                )
            values[self._rest] = args[len(self._positional) :]
        if kwargs:
            self._bind_keywords(values, kwargs)
        if not self._required <= values.keys():
            missing = ", ".join(repr(name) for name in self.types if name in self._required - values.keys())
            raise self._misfit(f"needs {missing} as well")
        return values

    def named(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Some of the arguments, by name."""
        values = {name: value for name, value in given.items() if name in self.types and name != self._extra}
        self._bind_keywords(values, {name: value for name, value in given.items() if name not in values})
        return values

    def _bind_keywords(self, values: dict[str, Any], kwargs: dict[str, Any]) -> None:
        for name, value in kwargs.items():
            if name in self._keyword:
                if name in values:
                    raise self._misfit(f"was given {name!r} twice")
                values[name] = value
            elif name in self.dependencies:
                raise self._misfit(
                    f"gets {name!r} from {self.dependencies[name]} in its worker; leave it out here"
                )
            elif self._extra is not None:
                values.setdefault(self._extra, {})[name] = value
            else:
                raise self._misfit(
                    f"has no parameter {name!r}; it has: {', '.join(self.types) or 'none'}{_hint(name)}"
                )

    def _misfit(self, what: str) -> PayloadError:
        return PayloadError(f"task {self._task!r} {what}")

    def call(self, arguments: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A record of arguments as what the function is called with."""
        given = {
            name: value for name in self.types if (value := getattr(arguments, name)) is not msgspec.UNSET
        }
        args: tuple[Any, ...] = ()
        if self._rest in given:
            args = (
                *(self._or_default(name, given) for name in self._positional),
                *given.pop(self._rest or ""),
            )
        elif self._first:
            args = tuple(given.pop(name) for name in self._first if name in given)
        if self._extra:
            given |= given.pop(self._extra, {})
        return args, given

    def _or_default(self, name: str, given: dict[str, Any]) -> Any:
        return given.pop(name) if name in given else self.defaults[name]


def _parameters(function: Callable[..., Any], task: str) -> list[inspect.Parameter]:
    try:
        return parameters(function)
    except (TypeError, ValueError):
        raise ConfigError(
            f"task {task!r}: the parameters of {function!r} cannot be seen; wrap it in a def"
        ) from None


def _hint(name: str) -> str:
    """Where something goes that is no argument of the function."""
    if name == "connection":
        return "; for a transaction of your own: app.enqueue(task.job(…), connection=…)"
    return f"; an option of the job goes into task.options({name}=…)" if name in JobOptions.__slots__ else ""


def _wire_type(kind: Any, hint: Any) -> Any:
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple[hint, ...]
    return dict[str, hint] if kind is inspect.Parameter.VAR_KEYWORD else hint


def hints_of(function: Callable[..., Any], task: str) -> dict[str, Any]:
    """The annotations, also of functions whose types are local to the function that declares them."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = typing.cast("Any", target).func
    target = inspect.unwrap(target)
    if not inspect.isroutine(target):
        target = type(target).__call__
    with suppress(TypeError):  # what cannot be referred to weakly was not kept
        if (seen := _HINTS.get(target)) is not None:
            return seen
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        pass
    try:
        hints = typing.get_type_hints(target, localns=_caller_locals(), include_extras=True)
    except NameError as error:
        raise ConfigError(f"task {task!r}: {error} (in an annotation)") from None
    with suppress(TypeError):  # a built-in function, which has no such annotations
        _HINTS[target] = hints
    return hints


def _caller_locals() -> dict[str, Any]:
    """Local names of the nearest frames outside this package, the innermost first."""
    found: dict[str, Any] = {}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("headgate."):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found
