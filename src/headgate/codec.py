"""JSON in, JSON out: how arguments, results, progress and metadata travel. Never pickle.

A task's arguments are an object by parameter name. Both sides put them through the same decoder, built once from the
annotations: the producer to refuse what would not fit, the worker to get the values back as they were declared.
Models of pydantic are recognised by what they can do, so that it need not be installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from headgate.errors import ConfigError, PayloadError

PLAIN = frozenset({str, int, float, bool, type(None), list, tuple, dict})
"""What may be passed where nothing is declared: everything else would come back as something else."""


NO_LIMIT = 2**63


def _encode_model(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")


def _decode_model(kind: Any, value: Any) -> Any:
    return kind.model_validate_json(_encoder.encode(value))


_encoder = msgspec.json.Encoder(enc_hook=_encode_model)
_sorted = msgspec.json.Encoder(enc_hook=_encode_model, order="deterministic")


def encode(value: Any, what: str) -> bytes:
    """A value as JSON; `what` names it in the message if it has no JSON form."""
    try:
        raw = _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise PayloadError(f"{what} cannot travel as JSON: {error.object!r} is not valid Unicode") from None
    except RecursionError:
        raise PayloadError(
            f"{what} cannot travel as JSON: it contains itself, or is nested too deeply"
        ) from None
    except Exception as error:
        raise PayloadError(f"{what} cannot travel as JSON: {error}") from None
    if b"null" in raw:
        _refuse_non_finite(value, what)
    return raw


def _refuse_non_finite(value: Any, what: str) -> None:
    """JSON has no NaN or infinity: they would silently become null."""
    if any(
        not math.isfinite(number) for number in _floats(msgspec.to_builtins(value, enc_hook=_encode_model))
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


def encode_text(value: Any, what: str, limit: int) -> str:
    """The same as text, of at most `limit` bytes."""
    raw = encode(value, what)
    if len(raw) > limit:
        raise PayloadError(f"{what}: {len(raw):,} bytes of JSON, more than the payload limit of {limit:,}")
    return raw.decode()


def sorted_text(value: Any, what: str) -> str:
    """JSON text that is the same for equal values, whatever the order of their keys."""
    encode(value, what)
    return _sorted.encode(value).decode()


def in_utc(value: Any) -> Any:
    """A value whose points in time are told in UTC; those without a zone stay as they are."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, int | float | bytes | None):
        return value
    try:
        plain = msgspec.to_builtins(
            value, builtin_types=(datetime,), enc_hook=_encode_model, order="deterministic"
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


def decoder(kind: Any, what: str) -> msgspec.json.Decoder[Any]:
    """A decoder for a declared type; one that can never be filled from JSON is refused here, at declaration."""
    try:
        made = msgspec.json.Decoder(kind, dec_hook=_decode_model)
        strangers = list(_strangers(msgspec.inspect.type_info(kind), set()))
    except TypeError as error:
        raise ConfigError(f"{what}: {error}") from None
    if strangers:
        raise ConfigError(
            f"{what}: {strangers[0]!r} cannot be read from JSON; use a plain type, a dataclass, a msgspec Struct "
            "or a pydantic model"
        )
    return made


def _strangers(info: Any, seen: set[Any]) -> Iterable[Any]:
    """Types inside a type description that nothing here can decode."""
    if isinstance(info, msgspec.inspect.CustomType):
        if not hasattr(info.cls, "model_validate_json"):
            yield info.cls
    elif isinstance(info, msgspec.Struct):
        if id(info) not in seen:
            seen.add(id(info))
            for field in msgspec.structs.fields(info):
                yield from _strangers(getattr(info, field.name), seen)
    elif isinstance(info, tuple):
        for item in cast("tuple[Any, ...]", info):
            yield from _strangers(item, seen)


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

    __slots__ = ("_decoder", "_plain", "_untyped", "_what", "limit", "names")

    def __init__(self, task: str, types: Mapping[str, Any], optional: frozenset[str], limit: int) -> None:
        self._what = f"arguments of task {task!r}"
        self.limit = limit
        self.names = tuple(types)
        self._untyped = tuple(name for name, kind in types.items() if kind is Any)
        self._plain = tuple(name for name, kind in types.items() if is_plain(kind))
        for name, kind in types.items():
            decoder(kind, f"parameter {name!r} of task {task!r}")
        fields = [
            (name, kind, msgspec.UNSET) if name in optional else (name, kind) for name, kind in types.items()
        ]
        shape = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
        self._decoder = msgspec.json.Decoder(shape, dec_hook=_decode_model)

    def encode(self, values: dict[str, Any]) -> tuple[str, Any]:
        """Arguments as JSON text, and as the worker will see them: a record of them, `UNSET` where left out."""
        for name in self._untyped:
            if name in values and type(values[name]) not in PLAIN:
                self._refuse_untyped(name, values[name])
        raw = encode(values, self._what)
        if len(raw) > self.limit:
            raise PayloadError(
                f"{self._what}: {len(raw):,} bytes of JSON, more than the payload limit of {self.limit:,}; store "
                "large data elsewhere and pass a reference, or raise App(payload_limit=)"
            )
        arguments = self.decode(raw)
        for name in self._plain:
            if name in values and getattr(arguments, name) != values[name]:
                self._refuse_changed(name, values[name])
        return raw.decode(), arguments

    def decode(self, raw: str | bytes) -> Any:
        """JSON text as a record of arguments."""
        try:
            return self._decoder.decode(raw)
        except Exception as error:
            raise PayloadError(f"{self._what} do not fit: {error}") from None

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
