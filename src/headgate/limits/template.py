"""Keys by template: `"{order.region}:{db}"`, parameters and paths into them, braces doubled to mean themselves."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any, cast

from headgate.errors import ConfigError
from headgate.limits.parameters import Arguments, Parameters, Read


def escaped(value: Any) -> Any:
    """A `key=` that stands for itself: text is no template over the arguments."""
    return value.replace("{", "{{").replace("}", "}}") if isinstance(value, str) else value


def read_by_template(
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
        return "".join(
            literal + (parameters.text(read(arguments)) if read else "") for literal, read, _ in fields
        )

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
