"""The plain statements of the engine, one a file. `sql("find", schema)` is the text of find.sql for a schema."""

from __future__ import annotations

from functools import cache
from importlib import resources

from headgate.engine.postgres.scripts import for_schema


@cache
def sql(name: str, schema: str) -> str:
    """A statement by name."""
    return for_schema((resources.files(__name__) / f"{name}.sql").read_text("utf-8"), schema)
