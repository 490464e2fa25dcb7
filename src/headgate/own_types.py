"""How values become JSON and come back where msgspec has no way of its own.

Known everywhere are models of pydantic (by what they can do, so that it need not be installed) and paths. An app adds
classes of its own, `App(types={Money: (encode, decode)})`. Unions that JSON alone cannot tell apart, and enums of mixed
values, get a stand-in: the member counts that a value fits, and becomes the same JSON again.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, cast

import msgspec

from headgate.errors import ConfigError

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""From a value to plain JSON values, and back."""


class OwnTypes:
    """The classes that an app has told how to travel. `lenient` takes any class for known: for what another app will
    check, when it includes a set of tasks."""

    __slots__ = ("_known", "encoder", "lenient", "sorted_encoder")

    def __init__(self, known: Mapping[type, Pair] | None = None, *, lenient: bool = False) -> None:
        self._known = {} if known is None else _checked(known)
        self.lenient = lenient
        self.encoder = msgspec.json.Encoder(enc_hook=self.to_plain)
        self.sorted_encoder = msgspec.json.Encoder(enc_hook=self.to_plain, order="deterministic")

    def to_plain(self, value: Any) -> Any:
        """The hook of an encoder."""
        if pair := self._pair(type(value)):
            return pair[0](value)
        if isinstance(value, PurePath):
            return str(value)
        if (dump := getattr(value, "model_dump", None)) is not None:
            return dump(mode="json")
        raise NotImplementedError(f"{type(value).__name__} has no JSON form")

    def from_plain(self, kind: Any, value: Any) -> Any:
        """The hook of a decoder."""
        if isinstance(kind, StandIn):
            return kind.read(value)
        if pair := self._pair(kind):
            return pair[1](value)
        if issubclass(kind, PurePath):
            if not isinstance(value, str):
                raise ValueError(f"expected a text that is a path, got {value!r:.60}")
            return kind(value)
        return kind.model_validate_json(self.encoder.encode(value))

    def knows(self, kind: Any) -> bool:
        """Whether a class can be read from JSON by one of the ways above."""
        return (
            self.lenient
            or isinstance(kind, StandIn)
            or self._pair(kind) is not None
            or PurePath in getattr(kind, "__mro__", ())
            or hasattr(kind, "model_validate_json")
        )

    def _pair(self, kind: Any) -> Pair | None:
        if not self._known:
            return None
        return next((self._known[base] for base in getattr(kind, "__mro__", ()) if base in self._known), None)

    def decoder(self, kind: Any) -> msgspec.json.Decoder[Any]:
        """A decoder; raises TypeError for what no JSON can fill."""
        return msgspec.json.Decoder(kind, dec_hook=self.from_plain)

    # ── stand-ins ────────────────────────────────────────────────────────────────────────────────────────────────

    def spelled(self, kind: Any) -> Any:
        """A declared type as msgspec can take it: with stand-ins for what it refuses."""
        if self._taken(kind):
            return kind
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return self._one_of(kind, [self.spelled(arg) for arg in args])
        if Enum in getattr(kind, "__mro__", ()):
            return self._by_value(kind)
        if origin is typing.Annotated:
            return typing.Annotated[(self.spelled(args[0]), *args[1:])]
        try:
            return origin[tuple(self.spelled(arg) for arg in args)] if origin is not None else kind
        except TypeError:
            return kind

    def _taken(self, kind: Any) -> bool:
        try:
            self.decoder(kind)
        except TypeError:
            return False
        return True

    def _one_of(self, kind: Any, members: list[Any]) -> StandIn:
        members.sort(key=lambda member: member is str)  # a text that is a date, too, is meant as one
        decoders = [self.decoder(member) for member in members]

        def read(value: Any) -> Any:
            raw, wrong = self.sorted_encoder.encode(value), list[str]()
            fitting: list[Any] = []
            for decoder in decoders:
                try:
                    found = decoder.decode(raw)
                except Exception as error:
                    wrong.append(str(error))
                    continue
                if self.sorted_encoder.encode(found) == raw:
                    return found
                fitting.append(found)
            if fitting:
                return fitting[0]
            raise ValueError("; ".join(wrong))

        classes = frozenset(typing.get_origin(member) or member for member in typing.get_args(kind))
        return StandIn(str(kind), read, classes)

    def _by_value(self, kind: type[Enum]) -> StandIn:
        members = {self.sorted_encoder.encode(member.value): member for member in kind}

        def read(value: Any) -> Any:
            member = members.get(self.sorted_encoder.encode(value))
            if member is None:
                raise ValueError(f"Invalid enum value {value!r:.60}")
            return member

        return StandIn(kind.__name__, read, frozenset())


class StandIn(type):
    """A class that stands for a declared type: everything that it reads counts as its instance."""

    read: Callable[[Any], Any]
    classes: frozenset[Any]
    """The members of a union, where a value of one might be taken for another."""

    def __new__(cls, name: str, read: Callable[[Any], Any], classes: frozenset[Any]) -> StandIn:
        return super().__new__(cls, name, (), {})

    def __init__(cls, name: str, read: Callable[[Any], Any], classes: frozenset[Any]) -> None:
        super().__init__(name, (), {})
        cls.read = read
        cls.classes = classes

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


def members_of(kind: Any) -> frozenset[Any]:
    """The members of all unions in a spelled type that have a stand-in."""
    if isinstance(kind, StandIn):
        return kind.classes
    return frozenset[Any]().union(*(members_of(arg) for arg in typing.get_args(kind)))


def taken_for_another(given: Any, back: Any, members: frozenset[Any]) -> Iterator[tuple[Any, Any]]:
    """Values of one member of a union that came back as another, each with what it became."""
    if isinstance(given, Mapping) and isinstance(back, Mapping):
        pairs = zip(cast("Any", given).values(), cast("Any", back).values(), strict=False)
    elif isinstance(given, list | tuple) and isinstance(back, list | tuple):
        pairs = zip(cast("list[Any]", given), cast("list[Any]", back), strict=False)
    elif type(given) in members and type(back) is not type(given):  # pyright: ignore[reportUnknownArgumentType]
        yield given, back
        return
    else:
        return
    for one, other in pairs:
        yield from taken_for_another(one, other, members)


def _checked(known: Any) -> dict[type, Pair]:
    if not isinstance(known, Mapping):
        raise ConfigError(f"types={known!r:.80}: a mapping is needed, as in {{Money: (str, Money.parse)}}")
    for kind, pair in cast("Mapping[Any, Any]", known).items():
        if not isinstance(kind, type):
            raise ConfigError(f"types=: {kind!r:.80} is not a class")
        functions = cast("tuple[Any, ...]", pair) if isinstance(pair, tuple) else ()
        if len(functions) != 2 or not all(callable(function) for function in functions):
            raise ConfigError(
                f"types=: {kind.__name__} needs two functions, to plain JSON values and back, as in "
                f"{{{kind.__name__}: (encode, decode)}}, not {pair!r:.80}"
            )
    return dict(cast("Mapping[type, Pair]", known))


NO_OWN = OwnTypes()
