"""`failures`: what went wrong, grouped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.notes import point_out
from headgate.cli.options import (
    AppName,
    ErrorText,
    Factory,
    Json,
    Queue,
    Since,
    TaskName,
    Tenant,
    Until,
    Url,
    chosen,
)
from headgate.cli.store import open_store

if TYPE_CHECKING:
    from headgate.app.failures import Failures


def failures(
    queue: Queue = None,
    task: TaskName = None,
    tenant: Tenant = None,
    error: ErrorText = None,
    since: Since = None,
    until: Until = None,
    size: Annotated[
        int, typer.Option("--size", "-n", min=1, help="Look at so many failed jobs, the newest.")
    ] = 1000,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Group failed jobs by task and error; numbers and ids in it do not count.

    headgate failures --since 2h
    headgate failures --task send --json | jq -r '.ids[0]'
    headgate restart --task send --error "Connection refused" --since 2h

    --json prints one group a line: task, error_type, pattern (… stands for what
    differs), common (a text that all errors have, for --error), error (the
    latest), count, first, last, ids (the newest).
    """
    from headgate.cli.show import json_line

    filter = chosen(None, queue, task, tenant, None, error, since, until)
    with open_store(url, app, factory=factory) as opened:
        found = opened.failures_sync(size=size, **filter)
        if not found.groups:
            point_out(opened, filter)
    if json:
        for group in found.groups:
            json_line(group)
    else:
        _table(found)


def _table(found: Failures) -> None:
    from headgate.cli.show import say, table
    from headgate.cli.times import ago

    if not found.groups:
        say("No failed jobs.")
        return
    rows = [
        (group.count, group.task, group.pattern, ago(group.first), ago(group.last), group.ids[0])
        for group in found.groups
    ]
    table(("count", "task", "error", "first", "last", "newest"), rows, right=("count",), whole=("newest",))
    if found.more:
        say(f"The newest {found.jobs:,} failed jobs; there are older ones: --size looks at more.")
