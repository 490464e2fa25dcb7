"""The Lua of this engine, one file a verb; the parts that every verb uses stand in front of it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

BEFORE = ("store", "rates", "rulebook", "ledger", "admission", "lifecycle", "moves", "looking", "step")
AFTER = ("run",)


class Script(NamedTuple):
    """A script and the name under which a server keeps it."""

    text: bytes
    sha: bytes


@cache
def script(verb: str) -> Script:
    """The whole script of a verb."""
    return _script("\n".join(_read(part) for part in (*BEFORE, verb, *AFTER)))


@cache
def lone_script(name: str) -> Script:
    """A script that needs none of the parts."""
    return _script(_read(name))


def _script(text: str) -> Script:
    data = text.encode()
    return Script(data, hashlib.sha1(data, usedforsecurity=False).hexdigest().encode())


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.lua").read_text(encoding="utf-8")
