"""Keeping a store and measuring it: `audit`, `migrate`, `bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.exits import FAILED, USAGE, fail
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import find_app, open_store

if TYPE_CHECKING:
    from collections.abc import Sized

    from headgate.app.audit import AuditReport


def audit(
    repair: Annotated[
        bool, typer.Option("--repair", help="Look at every key again first, and mend what cannot be.")
    ] = False,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Check that everything the store keeps about admission fits together. Exits with 1 if it does not.

    headgate audit
    headgate audit --repair

    Workers repair by themselves, a slice a second; --repair does it at once
    and for the whole store, while everything runs. What it mends is the trace
    of a defect: please report it. Exits with 1 if problems are left.

    --json prints one object: ok, problems, repaired.
    """
    from headgate.cli.show import json_line, progress

    with (
        open_store(url, app, factory=factory) as opened,
        progress("repair" if repair else "audit", None) as bar,
    ):
        report = opened.audit_sync(repair=repair, progress=lambda slices: bar.advance())
    if json:
        json_line(report.to_dict())
    else:
        _say_report(report, repair)
    if not report.ok:
        raise typer.Exit(FAILED)


def _say_report(report: AuditReport, repair: bool) -> None:
    from headgate.cli.show import say

    if report.repaired:
        say(f"{_count(report.repaired, 'thing')} mended:\n" + "\n".join(report.repaired))
    elif repair:
        say("Nothing had to be mended.")
    if report.ok:
        say("No problems: every slot has its running attempt, and no waiting job is forgotten.")
    else:
        say(f"{_count(report.problems, 'problem')}{' left' if repair else ''}:\n{report}")


def _count(things: Sized, word: str) -> str:
    return f"1 {word}" if len(things) == 1 else f"{len(things):,} {word}s"


def migrate(json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False) -> None:
    """Create the store, or bring it to this version of Headgate. Safe when run twice, or by two at once.

    headgate migrate --url sqlite:////var/lib/myproject/jobs.db

    --json prints one object: url, before, after (versions of the store; before
    0: it was created).
    """
    from headgate.cli.show import json_line, say
    from headgate.engine.open import shown_url

    found = find_app(url, app, factory=factory)
    shown = shown_url(found.url)
    try:
        before, after = found.migrate_sync()
    finally:
        found.close_sync()
    if json:
        json_line({"url": shown, "before": before, "after": after})
    elif before == after:
        say(f"{shown} is at version {after} already.")
    else:
        say(
            f"{shown} was {'created at' if before == 0 else f'brought from version {before} to'} version {after}."
        )


def bench(context: typer.Context) -> None:
    """Run the benchmark of Headgate's repository; arguments are passed on to it.

    headgate bench --help
    """
    if not (Path("bench") / "__main__.py").is_file():
        fail(
            "the benchmark is part of Headgate's repository, not of the package: clone it and run `make bench`",
            USAGE,
        )
    raise typer.Exit(subprocess.run([sys.executable, "-m", "bench", *context.args], check=False).returncode)
