"""JSON in, JSON out: how arguments, results, progress and metadata travel. Never pickle.

A task's arguments are an object by parameter name. Both sides put them through the same decoder, built once from the
annotations: the producer to refuse what would not fit, the worker to get the values back as they were declared.
What is no plain JSON travels as `own_types` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from headgate.errors import ConfigError, PayloadError
from headgate.own_types import NO_OWN, OwnTypes, members_of, taken_for_another

PLAIN = frozenset({str, int, float, bool, type(None), list, tuple, dict})
"""What may be passed where nothing is declared: everything else would come back as something else."""


NO_LIMIT = 2**63


def encode(value: Any, what: str, own: OwnTypes = NO_OWN) -> bytes:
    """A value as JSON; `what` names it in the message if it has no JSON form."""
    try:
        raw = own.encoder.encode(value)
    except UnicodeEncodeError as error:
        raise PayloadError(f"{what} cannot travel as JSON: {error.object!r} is not valid Unicode") from None
    except RecursionError:
        raise PayloadError(
            f"{what} cannot travel as JSON: it contains itself, or is nested too deeply"
        ) from None
    except Exception as error:
        raise PayloadError(f"{what} cannot travel as JSON: {error}") from None
    if b"null" in raw:
        _refuse_non_finite(value, what, own)
    return raw


def _refuse_non_finite(value: Any, what: str, own: OwnTypes) -> None:
    """JSON has no NaN or infinity: they would silently become null."""
    if any(
        not math.isfinite(number) for number in _floats(msgspec.to_builtins(value, enc_hook=own.to_plain))
    ):
        raise PayloadError(f"{what} cannot travel as JSON: it contains NaN or an infinite number")


def _floats(value: Any) -> Iterable[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        yield from _floats(list(cast("dict[Any, Any]", value).values()))
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from _floats(item)


def encode_text(value: Any, what: str, limit: int, own: OwnTypes = NO_OWN) -> str:
    """The same as text, of at most `limit` bytes."""
    raw = encode(value, what, own)
    if len(raw) > limit:
        raise PayloadError(f"{what}: {len(raw):,} bytes of JSON, more than the payload limit of {limit:,}")
    return raw.decode()


def sorted_text(value: Any, what: str, own: OwnTypes = NO_OWN) -> str:
    """JSON text that is the same for equal values, whatever the order of their keys."""
    encode(value, what, own)
    return own.sorted_encoder.encode(value).decode()


def in_utc(value: Any, own: OwnTypes = NO_OWN) -> Any:
    """A value whose points in time are told in UTC; those without a zone stay as they are."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, int | float | bytes | None):
        return value
    try:
        plain = msgspec.to_builtins(
            value, builtin_types=(datetime,), enc_hook=own.to_plain, order="deterministic"
        )
    except Exception:  # what has no JSON form is refused where it is encoded
        return value
    return _each_in_utc(plain)


def _each_in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, dict):
        return {name: _each_in_utc(one) for name, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_each_in_utc(one) for one in cast("list[Any]", value)]
    return value


def decode(text: str | bytes) -> Any:
    """Plain JSON values."""
    return msgspec.json.decode(text)


def decode_object(text: str | None) -> dict[str, Any]:
    """A JSON object; nothing counts as an empty one."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])


def decoder(kind: Any, what: str, own: OwnTypes = NO_OWN) -> msgspec.json.Decoder[Any]:
    """A decoder for a declared type; one that can never be filled from JSON is refused here, at declaration."""
    try:
        made = own.decoder(kind)
        strangers = list(_strangers(msgspec.inspect.type_info(kind), set(), own))
    except TypeError as error:
        raise ConfigError(f"{what}: {error}") from None
    if strangers:
        raise ConfigError(
            f"{what}: {strangers[0]!r} cannot be read from JSON; use a plain type, a dataclass, a msgspec Struct "
            "or a pydantic model, or say how it travels: App(types={…})"
        )
    return made


def _strangers(info: Any, seen: set[Any], own: OwnTypes) -> Iterable[Any]:
    """Types inside a type description that nothing here can decode."""
    if isinstance(info, msgspec.inspect.CustomType):
        if not own.knows(info.cls):
            yield info.cls
    elif isinstance(info, msgspec.Struct):
        if id(info) not in seen:
            seen.add(id(info))
            for field in msgspec.structs.fields(info):
                yield from _strangers(getattr(info, field.name), seen, own)
    elif isinstance(info, tuple):
        for item in cast("tuple[Any, ...]", info):
            yield from _strangers(item, seen, own)


def is_plain(kind: Any) -> bool:
    """Whether a declared type says nothing about what is inside: Any, `dict`, `list[Any]`, `dict[str, Any]` …"""
    try:
        return _says_nothing(msgspec.inspect.type_info(kind))
    except TypeError:
        return False


def _says_nothing(info: Any) -> bool:
    match info:
        case msgspec.inspect.AnyType():
            return True
        case msgspec.inspect.DictType():
            text_or_any = isinstance(info.key_type, msgspec.inspect.StrType | msgspec.inspect.AnyType)
            return text_or_any and _says_nothing(info.value_type)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return _says_nothing(info.item_type)
        case _:
            return False


def _not_plain(value: Any) -> Iterator[str]:
    """What is not JSON's own, in words."""
    if isinstance(value, dict):
        for key, one in cast("dict[Any, Any]", value).items():
            if not isinstance(key, str):
                yield f"the key {key!r:.60}, a {type(key).__name__}"
            yield from _not_plain(one)
    elif isinstance(value, list | tuple):
        for one in cast("list[Any]", value):
            yield from _not_plain(one)
    elif not isinstance(value, str | int | float | bool | None):
        yield f"{value!r:.60}, a {type(value).__name__}"


class Payload:
    """The arguments of one task: names, types and which may be left out, compiled into an encoder and a decoder."""

    __slots__ = ("_alone", "_decoder", "_members", "_own", "_plain", "_untyped", "_what", "limit", "names")

    def __init__(
        self,
        task: str,
        types: Mapping[str, Any],
        optional: frozenset[str],
        limit: int,
        own: OwnTypes = NO_OWN,
    ) -> None:
        self._what = f"arguments of task {task!r}"
        self._own = own
        self.limit = limit
        self.names = tuple(types)
        self._untyped = tuple(name for name, kind in types.items() if kind is Any)
        self._plain = tuple(name for name, kind in types.items() if is_plain(kind))
        spelled = {name: own.spelled(kind) for name, kind in types.items()}
        self._members = {name: found for name, kind in spelled.items() if (found := members_of(kind))}
        self._alone = {
            name: decoder(kind, f"parameter {name!r} of task {task!r}", own) for name, kind in spelled.items()
        }
        fields = [
            (name, kind, msgspec.UNSET) if name in optional else (name, kind)
            for name, kind in spelled.items()
        ]
        shape = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
        self._decoder = own.decoder(shape)

    def encode(self, values: dict[str, Any]) -> tuple[str, Any]:
        """Arguments as JSON text, and as the worker will see them: a record of them, `UNSET` where left out."""
        for name in self._untyped:
            if name in values and type(values[name]) not in PLAIN:
                self._refuse_untyped(name, values[name])
        raw = self._encoded(values)
        if len(raw) > self.limit:
            raise PayloadError(
                f"{self._what}: {len(raw):,} bytes of JSON, more than the payload limit of {self.limit:,}; store "
                "large data elsewhere and pass a reference, or raise App(payload_limit=)"
            )
        arguments = self.decode(raw)
        for name in self._plain:
            if name in values and getattr(arguments, name) != values[name]:
                self._refuse_changed(name, values[name])
        for name, members in self._members.items():
            if name in values:
                what = f"{self._what}: parameter {name!r}"
                refuse_taken_for_another(values[name], getattr(arguments, name), members, what)
        return raw.decode(), arguments

    def _encoded(self, values: dict[str, Any]) -> bytes:
        try:
            return encode(values, self._what, self._own)
        except PayloadError:
            for name, value in values.items():
                encode(value, f"{self._what}: parameter {name!r}", self._own)
            raise

    def changed(self, raw: str, given: dict[str, Any]) -> Any:
        """Stored arguments as a record, with those in the place of others that are given. Stored ones that the task no
        longer takes are left out."""
        stored = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        new = msgspec.json.decode(self._encoded(given), type=dict[str, msgspec.Raw])
        return self.decode(
            msgspec.json.encode({name: text for name, text in (stored | new).items() if name in self.names})
        )

    def decode(self, raw: str | bytes) -> Any:
        """JSON text as a record of arguments."""
        try:
            return self._decoder.decode(raw)
        except Exception as error:
            raise PayloadError(f"{self._what} do not fit: {self._misfit(raw) or error}") from None

    def _misfit(self, raw: str | bytes) -> str | None:
        """Which parameter it is that does not fit, and why; None if it is none of them alone."""
        try:
            texts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            return None
        for name, text in texts.items():
            if name in self._alone:
                try:
                    self._alone[name].decode(text)
                except Exception as error:
                    return f"parameter {name!r}: {error or type(error).__name__}"
        return None

    def _refuse_changed(self, name: str, value: Any) -> None:
        """Refuse what would come back as something else; a tuple that comes back as a list is the same to JSON."""
        if stranger := next(_not_plain(value), None):
            raise PayloadError(
                f"{self._what}: parameter {name!r} holds {stranger}, which would come back changed; where nothing more "
                "is declared, JSON's own types travel, with texts as keys; annotate the parameter, as in dict[int, str]"
            )

    def _refuse_untyped(self, name: str, value: Any) -> None:
        raise PayloadError(
            f"{self._what}: parameter {name!r} has no annotation, or Any, so it takes plain JSON only, not "
            f"{type(value).__name__}; annotate it with a type to have values converted"
        )


class ResultForm:
    """How one task's results become JSON and come back as its return annotation says."""

    __slots__ = ("_decoder", "_limit", "_members", "_own", "_what")

    def __init__(self, task: str, kind: Any, limit: int, own: OwnTypes = NO_OWN) -> None:
        self._what = f"result of task {task!r}"
        self._own = own
        self._limit = limit
        spelled = own.spelled(kind)
        self._members = members_of(spelled)
        self._decoder = decoder(spelled, self._what, own)

    def encode(self, value: Any) -> str:
        """A result as JSON text; raises PayloadError."""
        text = encode_text(value, self._what, self._limit, self._own)
        if self._members:
            refuse_taken_for_another(value, self.decode(text), self._members, self._what)
        return text

    def decode(self, text: str | bytes) -> Any:
        """JSON text as a result; raises PayloadError."""
        try:
            return self._decoder.decode(text)
        except Exception as error:
            raise PayloadError(f"{self._what} does not fit its annotation: {error}") from None


def refuse_taken_for_another(given: Any, back: Any, members: frozenset[Any], what: str) -> None:
    """Refuse a value of a union that JSON cannot tell from one of another member."""
    if changed := next(taken_for_another(given, back, members), None):
        one, other = changed
        raise PayloadError(
            f"{what}: {one!r:.60}, a {type(one).__name__}, would come back as {other!r:.60}, a {type(other).__name__}, "
            "since both are the same in JSON; declare one of the two, or classes with a field that tells them apart"
        )
