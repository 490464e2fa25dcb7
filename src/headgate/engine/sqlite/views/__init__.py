"""The views through which questions read the file: one a file, with the columns of the contract's tables."""

from __future__ import annotations

from functools import cache
from importlib import resources

BENEATH = frozenset({"attempts", "holders", "jobs", "overrides"})
"""The tables of the file that the views read."""


@cache
def views() -> dict[str, str]:
    """The statement that creates each view, by its name."""
    files = (file for file in resources.files(__name__).iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): file.read_text("utf-8") for file in files}
