"""A declared limit on one task: from a job's arguments to the key that it needs and what it costs.

A limit is bound to a task once, at declaration; names that do not exist, templates that do not fit and functions with
other parameters are refused then. What remains per job is a few attribute reads and one string. Several parameters are
joined by `:`, which is escaped inside them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.errors import ConfigError, PayloadError
from headgate.keys import MAX_BYTES, Key, Use, canonical, check_length
from headgate.limits.declared import DeclaredLimit, RateLimit
from headgate.limits.parameters import Arguments, Parameters, Read, read_by_function
from headgate.limits.template import read_by_template


class BoundLimit:
    """A declared limit on one task: from a job's arguments and tenant to the key it needs."""

    __slots__ = ("_cost", "_key", "_prefix", "_text_limit", "limit", "name", "rate", "record")

    def __init__(
        self, limit: DeclaredLimit, parameters: Parameters, own: str | None = None, called: str | None = None
    ) -> None:
        """`own` is the annotated parameter; `called` names the limit when neither scope nor parameters do."""
        self.limit = limit
        self.rate = isinstance(limit, RateLimit)
        self._key, names = _key_reader(limit, parameters, own)
        self.name = limit.scope or _default_name(parameters.task, names, own, called)
        self._text_limit = MAX_BYTES - len(self.name.encode()) - 1
        check_length(self.name, "limit name")
        self.record = limit.record(self.name)
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
        if value is not None and not (value.isascii() and len(value) <= self._text_limit):
            check_length(f"{self.name}={value}", "limit key")
        return value


def _default_name(task: str, names: tuple[str, ...], own: str | None, called: str | None) -> str:
    """`TASK.PARAM`; without a parameter the limit is the task's own and bears its name."""
    suffix = own or ",".join(names) or called
    return f"{task}.{suffix}" if suffix else task


def _cost_reader(
    limit: DeclaredLimit, parameters: Parameters, own: str | None
) -> Callable[[Arguments], int] | None:
    if not isinstance(limit, RateLimit) or limit.cost == 1:
        return None
    if isinstance(limit.cost, int):
        cost = limit.cost
        return lambda arguments: cost
    read = (
        parameters.read(limit.cost, f"{limit!r}, cost=")
        if isinstance(limit.cost, str)
        else read_by_function(limit.cost, parameters, own, f"{limit!r}, cost=")[0]
    )
    return lambda arguments: limit.check_cost(read(arguments))


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
