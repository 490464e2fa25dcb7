"""The plain statements of the engine, a file for each area, in sections that begin with `-- name: …`.

`sql("find", schema)` is the text of one for a schema."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from headgate.engine.postgres.scripts import for_schema

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def sql(name: str, schema: str) -> str:
    """A statement by name."""
    return for_schema(_texts()[name], schema)


@cache
def _texts() -> dict[str, str]:
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".sql")]
    texts: dict[str, str] = {}
    for file in files:
        _, *parts = _SECTION.split(file.read_text("utf-8"))
        texts.update(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
    return texts
