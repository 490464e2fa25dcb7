"""Limits that stand in a function's signature, as an annotation or as a parameter's default."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from headgate.errors import ConfigError
from headgate.limits.declared import DeclaredLimit


class LimitInSignature(NamedTuple):
    """A limit on the parameter `own`, or as the default of a parameter `called` so."""

    limit: DeclaredLimit
    own: str | None = None
    called: str | None = None


def limit_by_default(parameter: inspect.Parameter) -> LimitInSignature | None:
    """The limit that a parameter stands for; its argument does not travel."""
    limit = parameter.default
    return LimitInSignature(limit, called=parameter.name) if isinstance(limit, DeclaredLimit) else None


def split_annotation(task: str, name: str, hint: Any) -> tuple[Any, list[LimitInSignature]]:
    """A parameter's type and the limits in its `Annotated[...]`; what else stands there stays for the codec."""
    if get_origin(hint) is not Annotated:
        _refuse_nested(task, name, hint)
        return hint, []
    kind, *notes = get_args(hint)
    _refuse_nested(task, name, kind)
    for note in notes:
        if isinstance(note, type) and issubclass(note, DeclaredLimit):
            raise ConfigError(f"parameter {name!r} of task {task!r}: {note.__name__} needs its number")
    limits = [LimitInSignature(note, own=name) for note in notes if isinstance(note, DeclaredLimit)]
    others = [note for note in notes if not isinstance(note, DeclaredLimit)]
    return Annotated[(kind, *others)] if others else kind, limits


def _refuse_nested(task: str, name: str, hint: Any) -> None:
    """A limit deep inside a type would be ignored in silence."""
    for part in get_args(hint):
        if isinstance(part, DeclaredLimit):
            raise ConfigError(
                f"parameter {name!r} of task {task!r}: put the limit around the whole type, "
                "as in Annotated[int | None, ConcurrencyLimit(1)]"
            )
        _refuse_nested(task, name, part)
