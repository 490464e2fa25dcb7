"""A task's parameters as keys and costs see them: how one argument is read from a job's record of arguments.

A value becomes text as it would stand in JSON: text as it is, `true`, `42`, `null`, enums by value, other things as
compact JSON. So 1 and "1" are the same key, and so is one moment in two time zones: its text is in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import msgspec

from headgate import signatures
from headgate.codec import decode, in_utc, sorted_text
from headgate.errors import ConfigError
from headgate.own_types import NO_OWN, OwnTypes

Arguments = Any
"""A record of a job's arguments; `UNSET` where one was left out."""

Read = Callable[[Arguments], Any]


class Parameters:
    """The parameters whose arguments travel: their names, types and defaults."""

    __slots__ = ("defaults", "task", "text", "types")

    def __init__(
        self, task: str, types: dict[str, Any], defaults: dict[str, Any], own: OwnTypes = NO_OWN
    ) -> None:
        self.task = task
        self.types = types
        self.defaults = defaults
        self.text: Callable[[Any], str] = value_text if own is NO_OWN else partial(value_text, own=own)
        """The text that stands for a value in a key."""

    def read(self, name: str, where: str) -> Read:
        """How to get one argument; its default where it was left out."""
        if name not in self.types:
            known = ", ".join(self.types) or "none"
            raise ConfigError(f"{where}: task {self.task!r} has no parameter {name!r}; it has: {known}")
        if name not in self.defaults:
            return lambda arguments: getattr(arguments, name)
        default = self.defaults[name]

        def read(arguments: Arguments) -> Any:
            value = getattr(arguments, name)
            return default if value is msgspec.UNSET else value

        return read


def read_by_function(
    function: Callable[..., Any], parameters: Parameters, own: str | None, where: str
) -> tuple[Read, tuple[str, ...]]:
    """How to call a function of the arguments. On an annotated parameter, a function of one thing gets that one."""
    try:
        wanted = signatures.parameters(function)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{where}: the parameters of {function!r} cannot be seen; use a def or lambda"
        ) from None
    if own and len(wanted) == 1 and wanted[0].name not in parameters.types:
        read = parameters.read(own, where)
        return (lambda arguments: function(read(arguments))), (own,)
    names = [one.name for one in wanted if one.name in parameters.types or one.default is one.empty]
    reads = {name: parameters.read(name, where) for name in names}
    return (lambda arguments: function(**{name: read(arguments) for name, read in reads.items()})), tuple(
        names
    )


def value_text(value: Any, own: OwnTypes = NO_OWN) -> str:
    """The text that stands for a value in a key."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(plain, str):
        return str(plain)
    text = sorted_text(in_utc(plain, own), "a limit's key", own)
    return decode(text) if text[0] == '"' else text
