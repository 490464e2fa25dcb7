"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The store. Without it: the app's, else HEADGATE_URL, else sqlite:///headgate.db.",
        rich_help_panel="Store",
    ),
]
AppName = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", help="Use the store of this app.", rich_help_panel="Store"),
]
Target = Annotated[
    str, typer.Argument(metavar="MODULE:APP", help="Where the app is, as in myproject.jobs:app.")
]
AppDir = Annotated[
    str,
    typer.Option("--app-dir", metavar="DIR", help="Where modules are looked for.", rich_help_panel="Store"),
]
Factory = Annotated[
    bool,
    typer.Option("--factory", help="MODULE:APP is a function that makes the app.", rich_help_panel="Store"),
]
Json = Annotated[bool, typer.Option("--json", help="JSON for programs instead of a table.")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Jobs of this tenant.")]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="scheduled, ready, waiting, running, succeeded, failed or cancelled; may be repeated.",
    ),
]
Queue = Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Jobs of this queue.")]
TaskName = Annotated[str | None, typer.Option("--task", metavar="TASK", help="Jobs of this task.")]
LimitKey = Annotated[
    str | None,
    typer.Option(
        "--limit",
        metavar="KEY",
        help="Jobs that wait on a key (customer=42), or on any of a limit (customer).",
    ),
]

ErrorText = Annotated[
    str | None,
    typer.Option("--error", metavar="TEXT", help="Jobs whose error has this text in its first line."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Jobs that ended since then: 2h ago, or a time with its zone."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Jobs that ended before then, written likewise.")
]


def chosen(
    state: list[str] | None,
    queue: str | None,
    task: str | None,
    tenant: str | None,
    limit: str | None = None,
    error: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    """The filter that was given, as `app.jobs()` takes it. An empty text was given, too: an unset variable of a shell
    must not widen a filter."""
    from headgate.cli import times

    given: dict[str, Any] = {
        "state": state or None, "queue": queue, "task": task, "tenant": tenant, "limit": limit, "error": error,
        "since": None if since is None else times.until(since, "--since"),
        "until": None if until is None else times.until(until, "--until"),
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}
