"""What pydantic, and so FastAPI, is told of a record: how it is checked, what it becomes, and the JSON schema of that.

A record is made by Headgate and returned by a program; it is never read from JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

PREFIX = "#/$defs/"


def core_schema(record: type, to_dict: Callable[[Any], dict[str, Any]]) -> Any:
    """Instances pass as they are, and are written as their dictionary."""
    from pydantic_core import core_schema as pydantic

    written = pydantic.plain_serializer_function_ser_schema(to_dict, return_schema=pydantic.dict_schema())
    return pydantic.is_instance_schema(record, serialization=written)


def json_schema(record: type) -> dict[str, Any]:
    """The schema of a record's dictionary, whole in itself: what it holds has no name of its own outside."""
    schema = msgspec.json.schema(record, ref_template=PREFIX + "{name}")
    definitions = schema.pop("$defs")
    return cast("dict[str, Any]", _inlined(schema, definitions))


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    match part:
        case {"$ref": str(name)}:
            return _inlined(definitions[name.removeprefix(PREFIX)], definitions)
        case dict():
            return {key: _inlined(value, definitions) for key, value in cast("dict[str, Any]", part).items()}
        case list():
            return [_inlined(value, definitions) for value in cast("list[Any]", part)]
        case _:
            return part
