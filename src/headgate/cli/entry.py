"""Where `headgate` starts."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich")
MISSING = "headgate: the command line needs packages that are not installed; run: pip install 'headgate[cli]'"


def installed() -> bool:
    """Whether what the command line needs is there."""
    return all(find_spec(name) for name in NEEDED)


def main() -> None:
    """Run the command line, or say what to install for it."""
    if not installed():
        print(MISSING, file=sys.stderr)
        raise SystemExit(2)
    from headgate.cli.program import program

    program(prog_name="headgate")
