"""The SQL of the engine by area. A section of a file begins with `-- name: …`, then says what it reads and writes."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def sections() -> dict[str, str]:
    """Every statement with its comments, by name."""
    found: dict[str, str] = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            _, *parts = SECTION.split(file.read_text("utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                assert name not in found, f"two statements are named {name}"
                found[name] = text
    return found


@cache
def sql(name: str) -> str:
    """A statement by name; comments and line breaks are taken out so that the statement cache compares little."""
    return re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sections()[name])).strip().rstrip(";")


@cache
def of_rows(name: str, count: int) -> str:
    """A statement by name, with so many rows in its `VALUES`."""
    return re.sub(r"VALUES (\([^)]*\))", lambda found: f"VALUES {', '.join([found[1]] * count)}", sql(name))


@cache
def listed(name: str, count: int) -> str:
    """A statement by name, with room for `count` values in its list (`?*`)."""
    return sql(name).replace("?*", ",".join("?" * count))
