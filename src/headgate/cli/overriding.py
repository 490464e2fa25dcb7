"""What an operator says with a number of their own: by whom, why and until when; how that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.login import login

if TYPE_CHECKING:
    from headgate.app.fair_shares import WeightInfo
    from headgate.app.info import OverrideInfo

SHOWN = 100
"""How many lines people see of a store that may have a million."""
Size = Annotated[
    int | None,
    typer.Option(
        "--size", "-n", min=1, help="Show at most so many.", show_default=f"{SHOWN}; all with --json"
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, for later readers.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Your name (default: the login).")]
Ends = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="End it by itself: 30m, 2h, or a time with zone."),
]


def said(why: str, by: str | None, until: str | None) -> dict[str, Any]:
    """These options, as operations take them."""
    from headgate.cli import times

    ends = None if until is None else times.until(until, "--until")
    return {"by": login() if by is None else by, "why": why, "until": ends}


def shown(override: OverrideInfo | WeightInfo | None, instead: str) -> str:
    """A cell of a table: what the number is `instead` of, and what was said with it."""
    from headgate.cli.times import ago

    if override is None:
        return ""
    words = [f"instead of {instead}", f"set {ago(override.at)}"]
    words += [f"by {override.by}"] if override.by else []
    words += [f"ends {ago(override.until)}"] if override.until else []
    return ", ".join(words) + (f": {override.why}" if override.why else "")
