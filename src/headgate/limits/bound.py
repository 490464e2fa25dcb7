"""A declared limit on one task: from a job's arguments to the key that it needs, its cost and the number it brings.

A limit is bound to a task once, at declaration; names that do not exist, templates that do not fit and functions with
other parameters are refused then. What remains per job is a few attribute reads and one string. Several parameters are
joined by `:`, which is escaped inside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from headgate.errors import ConfigError, PayloadError
from headgate.keys import MAX_BYTES, Key, Use, canonical, check_length
from headgate.limits.declared import ConcurrencyLimit, DeclaredLimit, Number, RateLimit, check_max
from headgate.limits.parameters import Arguments, Parameters, Read, read_by_function
from headgate.limits.template import read_by_template


class Need(NamedTuple):
    """What a job needs of one key, and the number that it brings for it."""

    key: Key
    cost: int
    number: int | None


class BoundLimit:
    """A declared limit on one task: from a job's arguments and tenant to what it needs."""

    __slots__ = (
        "_brings", "_cost", "_key", "_number", "_prefix", "_text_limit", "limit", "name", "rate", "record",
    )  # fmt: skip

    def __init__(
        self,
        limit: DeclaredLimit,
        parameters: Parameters,
        own: str | None = None,
        called: str | None = None,
        *,
        by_job: bool = False,
    ) -> None:
        """`own` is the annotated parameter; `called` names the limit when neither scope nor parameters do. A limit that
        comes with single jobs (`by_job`) brings its number for their keys."""
        self.limit = limit
        self.rate = isinstance(limit, RateLimit)
        self._key, names = _key_reader(limit, parameters, own)
        self.name = limit.scope or _default_name(parameters.task, names, own, called)
        self._text_limit = MAX_BYTES - len(self.name.encode()) - 1
        check_length(self.name, "limit name")
        self.record = limit.record(self.name)
        if by_job and self.record is not None and self.record.max is not None:
            self.record = msgspec.structs.replace(self.record, by_job=True)
        self._cost = _cost_reader(limit, parameters, own)
        learns = self.record is not None and self.record.adaptive
        self._brings = limit.number if by_job and isinstance(limit.number, int) and not learns else None
        self._number = _number_reader(limit, parameters, own)
        self._prefix = Key(self.name, "", "", self.rate).ident

    def use(self, arguments: Arguments, tenant: str) -> tuple[Use, ...]:
        """The same as `need` for a job with this one limit, by the shortest way: most jobs have one or none."""
        if self._key is None or self._cost is not None or self._number is not None:
            return canonical([need] if (need := self.need(arguments, tenant)) else [])
        value = self._value(arguments)
        if value is None:
            return ()
        own = tenant and not self.limit.shared
        key = (Key(self.name, "", tenant, self.rate).ident if own else self._prefix) + value
        return (Use(key) if self._brings is None else Use(key, 1, self._brings),)

    def need(self, arguments: Arguments, tenant: str) -> Need | None:
        """The key, its cost and its number; None if this job does not need the limit."""
        value = None
        if self._key is not None and (value := self._value(arguments)) is None:
            return None
        number = self._number(arguments) if self._number else self._brings
        cost = self._cost(arguments, number) if self._cost else 1
        if cost == 0:
            return None
        return Need(Key(self.name, value, "" if self.limit.shared else tenant, self.rate), cost, number)

    def _value(self, arguments: Arguments) -> str | None:
        assert self._key is not None
        value = _called(self._key, arguments, self.limit, "key")
        if value is not None and not (value.isascii() and len(value) <= self._text_limit):
            check_length(f"{self.name}={value}", "limit key")
        return value


def _called(read: Read, arguments: Arguments, limit: DeclaredLimit, what: str) -> Any:
    """What a function of the arguments says; what it raises names the limit."""
    try:
        return read(arguments)
    except (ConfigError, PayloadError):
        raise
    except Exception as error:
        raise ConfigError(f"{limit!r}: its {what} function failed with {error!r}") from error


def _default_name(task: str, names: tuple[str, ...], own: str | None, called: str | None) -> str:
    """`TASK.PARAM`; without a parameter the limit is the task's own and bears its name."""
    suffix = own or ",".join(names) or called
    return f"{task}.{suffix}" if suffix else task


def _cost_reader(
    limit: DeclaredLimit, parameters: Parameters, own: str | None
) -> Callable[[Arguments, int | None], int] | None:
    """How to find a cost, which is checked against the number that the job brings or that is declared."""
    if not isinstance(limit, RateLimit | ConcurrencyLimit) or limit.cost == 1:
        return None
    if isinstance(limit.cost, int):
        cost = limit.cost
        return lambda arguments, number: cost if number is None else limit.check_cost(cost, number)
    read = _reader(limit.cost, limit, parameters, own, "cost=")
    return lambda arguments, number: limit.check_cost(_called(read, arguments, limit, "cost"), number)


def _number_reader(
    limit: DeclaredLimit, parameters: Parameters, own: str | None
) -> Callable[[Arguments], int | None] | None:
    """How to find the number that a job brings; None where there is one number for all."""
    if limit.number is None or isinstance(limit.number, int):
        return None
    read = _reader(limit.number, limit, parameters, own, "its number")
    what = f"the number of {limit!r}"

    def number(arguments: Arguments) -> int | None:
        value = _called(read, arguments, limit, "number")
        return None if value is None else limit.check_number(check_max(value, what))

    return number


def _reader(said: Number, limit: DeclaredLimit, parameters: Parameters, own: str | None, what: str) -> Read:
    """How to read an argument, or a function of some."""
    assert not isinstance(said, int)
    if isinstance(said, str):
        return parameters.read(said, f"{limit!r}, {what}")
    return read_by_function(said, parameters, own, f"{limit!r}, {what}")[0]


def _key_reader(
    limit: DeclaredLimit, parameters: Parameters, own: str | None
) -> tuple[Callable[[Arguments], str | None] | None, tuple[str, ...]]:
    """How to find a limit's key value, and the parameters that form it; no reader for a limit with one key only."""
    if limit.key is None:
        names = limit.params or ((own,) if own else ())
        reads = [parameters.read(name, repr(limit)) for name in names]
        return (_join(reads, parameters.text), names) if names else (None, ())
    if isinstance(limit.key, str):
        return read_by_template(limit.key, parameters, repr(limit))
    text = parameters.text
    if callable(limit.key):
        read, names = read_by_function(limit.key, parameters, own, repr(limit))
        return (lambda arguments: None if (value := read(arguments)) is None else text(value)), names
    constant = text(limit.key)
    return (lambda arguments: constant), ()


def _join(reads: list[Read], text: Callable[[Any], str]) -> Callable[[Arguments], str]:
    if len(reads) == 1:
        read = reads[0]
        return lambda arguments: text(read(arguments))
    return lambda arguments: ":".join(_escape(text(read(arguments))) for read in reads)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")
