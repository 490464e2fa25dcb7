"""The SQL of the engine, one operation a file. `sql("claim")` is the text of claim.sql without its header."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


@cache
def sql(name: str) -> str:
    """A statement by name; comments and line breaks are taken out so that the statement cache compares little."""
    text = (resources.files(__name__) / f"{name}.sql").read_text("utf-8")
    return re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", text)).strip().rstrip(";")


@cache
def listed(name: str, count: int) -> str:
    """A statement by name, with room for `count` values in its list (`?*`)."""
    return sql(name).replace("?*", ",".join("?" * count))


def names() -> list[str]:
    """Every statement there is: tests look at their query plans."""
    return sorted(
        file.name[:-4] for file in resources.files(__name__).iterdir() if file.name.endswith(".sql")
    )
