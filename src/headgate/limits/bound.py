"""Keys from arguments: which key of a declared limit a job needs, and what it costs.

A limit is bound to a task once, at declaration; names that do not exist, templates that do not fit and functions with
other parameters are refused then. What remains per job is a few attribute reads and one string.

A value becomes text as it would stand in JSON: text as it is, `true`, `42`, `null`, enums by value, other things as
compact JSON. So 1 and "1" are the same key, and so is one moment in two time zones: its text is in UTC. Several
parameters are joined by `:`, which is escaped inside them.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast

import msgspec

from headgate.codec import decode, in_utc, sorted_text
from headgate.errors import ConfigError, PayloadError
from headgate.keys import MAX_BYTES, Key, Use, canonical, check_length
from headgate.limits import AnyLimit, RateLimit

Arguments = Any
"""A record of a job's arguments; `UNSET` where one was left out."""

Read = Callable[[Arguments], Any]


def value_text(value: Any) -> str:
    """The text that stands for a value in a key."""
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(plain, str):
        return str(plain)
    text = sorted_text(in_utc(plain), "a limit's key")
    return decode(text) if text[0] == '"' else text


def plain_key(value: Any) -> Any:
    """A `key=` that stands for itself: text is no template over the arguments."""
    return value.replace("{", "{{").replace("}", "}}") if isinstance(value, str) else value


class Parameters:
    """A task's parameters as keys see them: their names, types and defaults."""

    def __init__(self, task: str, types: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.task = task
        self.types = types
        self.defaults = defaults

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


def key_reader(
    limit: AnyLimit, parameters: Parameters, own: str | None
) -> tuple[Callable[[Arguments], str | None] | None, tuple[str, ...]]:
    """How to find a limit's key value, and the parameters that form it; no reader for a limit with one key only."""
    if limit.key is None:
        names = limit.params or ((own,) if own else ())
        return (_join([parameters.read(name, repr(limit)) for name in names]), names) if names else (None, ())
    if isinstance(limit.key, str):
        return _template(limit.key, parameters, repr(limit))
    if callable(limit.key):
        read, names = function_reader(limit.key, parameters, own, repr(limit))
        return (lambda arguments: None if (value := read(arguments)) is None else value_text(value)), names
    constant = value_text(limit.key)
    return (lambda arguments: constant), ()


def _join(reads: list[Read]) -> Callable[[Arguments], str]:
    if len(reads) == 1:
        read = reads[0]
        return lambda arguments: value_text(read(arguments))
    return lambda arguments: ":".join(_escape(value_text(read(arguments))) for read in reads)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def function_reader(
    function: Callable[..., Any], parameters: Parameters, own: str | None, where: str
) -> tuple[Read, tuple[str, ...]]:
    """How to call a function of the arguments. On an annotated parameter, a function of one thing gets that one."""
    try:
        wanted = list(inspect.signature(function).parameters.values())
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


def _template(
    template: str, parameters: Parameters, where: str
) -> tuple[Callable[[Arguments], str], tuple[str, ...]]:
    """A template as literal pieces and the fields between them."""
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; double a brace that means itself") from None
    fields = [_field(template, piece, parameters, where) for piece in pieces]
    names = dict.fromkeys(name for _, read, name in fields if read)

    def text(arguments: Arguments) -> str:
        return "".join(literal + (value_text(read(arguments)) if read else "") for literal, read, _ in fields)

    return text, tuple(names)


def _field(
    template: str, piece: tuple[str, str | None, str | None, str | None], parameters: Parameters, where: str
) -> tuple[str, Read | None, str]:
    literal, field, spec, conversion = piece
    if field is None:
        return literal, None, ""
    if spec or conversion or not field:
        raise ConfigError(
            f"{where}: {{{field}}} in {template!r} must be a parameter or a path into one, nothing more"
        )
    name, *path = field.split(".")
    read = parameters.read(name, where)
    _check_path(parameters.types[name], path, field, parameters, where)
    return literal, (_walk(read, path, field, where) if path else read), name


def _check_path(kind: Any, path: list[str], field: str, parameters: Parameters, where: str) -> None:
    """Refuse attributes that a declared record certainly has not."""
    for step in path:
        if not step.isidentifier() or step.startswith("_"):
            raise ConfigError(f"{where}: {step!r} in {{{field}}} is not an attribute that a key may use")
    known = _known_fields(kind)
    if path and known is not None and path[0] not in known and not hasattr(kind, path[0]):
        raise ConfigError(
            f"{where}: {kind.__name__} in task {parameters.task!r} has no {path[0]!r}; it has: {', '.join(known)}"
        )


def _known_fields(kind: Any) -> tuple[str, ...] | None:
    if not isinstance(kind, type):
        return None
    for attribute in ("__struct_fields__", "__dataclass_fields__", "model_fields"):
        if fields := getattr(cast("Any", kind), attribute, None):
            return tuple(fields)
    return None


def _member(value: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", value)[name] if isinstance(value, Mapping) else getattr(value, name)


def _walk(read: Read, path: list[str], field: str, where: str) -> Read:
    def walk(arguments: Arguments) -> Any:
        value: Any = read(arguments)
        for step in path:
            try:
                value = _member(value, step)
            except (AttributeError, KeyError):
                raise ConfigError(
                    f"{where}: {{{field}}} does not fit, since {value!r} has no {step!r}"
                ) from None
        return value

    return walk


class BoundLimit:
    """A declared limit on one task: from a job's arguments and tenant to the key it needs."""

    __slots__ = ("_cost", "_key", "_prefix", "limit", "name", "rate", "text_limit")

    def __init__(
        self, limit: AnyLimit, parameters: Parameters, own: str | None = None, called: str | None = None
    ) -> None:
        """`own` is the annotated parameter; `called` names the limit when neither scope nor parameters do."""
        self.limit = limit
        self.rate = isinstance(limit, RateLimit)
        self._key, names = key_reader(limit, parameters, own)
        self.name = limit.scope or _default_name(parameters.task, names, own, called)
        self.text_limit = MAX_BYTES - len(self.name.encode()) - 1
        check_length(self.name, "limit name")
        self._cost = _cost_reader(limit, parameters, own)
        self._prefix = Key(self.name, "", "", self.rate).ident

    def use(self, arguments: Arguments, tenant: str) -> tuple[Use, ...]:
        """The same as `need` for a job with this one limit, by the shortest way: most jobs have one or none."""
        if self._key is None or self._cost is not None:
            return canonical([need] if (need := self.need(arguments, tenant)) else [])
        value = self._value(arguments)
        if value is None:
            return ()
        own = tenant and not self.limit.shared
        return (Use((Key(self.name, "", tenant, self.rate).ident if own else self._prefix) + value),)

    def need(self, arguments: Arguments, tenant: str) -> tuple[Key, int] | None:
        """The key and its cost; None if this job does not need the limit."""
        value = None
        if self._key is not None and (value := self._value(arguments)) is None:
            return None
        cost = self._cost(arguments) if self._cost else 1
        if cost == 0:
            return None
        return Key(self.name, value, "" if self.limit.shared else tenant, self.rate), cost

    def _value(self, arguments: Arguments) -> str | None:
        assert self._key is not None
        try:
            value = self._key(arguments)
        except (ConfigError, PayloadError):
            raise
        except Exception as error:
            raise ConfigError(f"{self.limit!r}: its key function failed with {error!r}") from error
        if value is not None and not (value.isascii() and len(value) <= self.text_limit):
            check_length(f"{self.name}={value}", "limit key")
        return value


def _default_name(task: str, names: tuple[str, ...], own: str | None, called: str | None) -> str:
    """`TASK.PARAM`; without a parameter the limit is the task's own and bears its name."""
    suffix = own or ",".join(names) or called
    return f"{task}.{suffix}" if suffix else task


def _cost_reader(
    limit: AnyLimit, parameters: Parameters, own: str | None
) -> Callable[[Arguments], int] | None:
    if not isinstance(limit, RateLimit) or limit.cost == 1:
        return None
    if isinstance(limit.cost, int):
        cost = limit.cost
        return lambda arguments: cost
    read = (
        parameters.read(limit.cost, f"{limit!r}, cost=")
        if isinstance(limit.cost, str)
        else function_reader(limit.cost, parameters, own, f"{limit!r}, cost=")[0]
    )
    return lambda arguments: limit.check_cost(read(arguments))
