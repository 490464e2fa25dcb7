"""Keeping a store and measuring it: `migrate`, `bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from headgate.cli.exits import USAGE, fail
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import find_app


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
