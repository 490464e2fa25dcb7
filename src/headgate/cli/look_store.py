"""Looking at what is not a job: `queues`, `limits`, `workers`, `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.exits import FAILED
from headgate.cli.options import AppName, Json, Url
from headgate.cli.store import store

if TYPE_CHECKING:
    from headgate.info import LimitInfo, OverrideInfo


def queues(json: Json = False, url: Url = None, app: AppName = None) -> None:
    """List the queues that have unfinished jobs or are paused.

    headgate queues

    --json prints one queue a line: name, paused, scheduled, ready, waiting,
    running.
    """
    from rich.text import Text

    from headgate.cli.show import json_line, say, table

    with store(url, app) as opened:
        found = opened.queues_sync()
    if json:
        for queue in found:
            json_line(queue)
    elif not found:
        say("No queue has unfinished jobs, and none is paused.")
    else:
        numbers = ("scheduled", "ready", "waiting", "running")
        paused = Text("paused", style="bold yellow")
        rows = (
            (q.name, paused if q.paused else "", q.scheduled, q.ready, q.waiting, q.running) for q in found
        )
        table(("queue", "", *numbers), rows, right=numbers)


def limits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this limit and its keys.")] = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
) -> None:
    """List the limits, and their keys that are held, waited for or overridden.

    headgate limits
    headgate limits customer

    --json prints one limit or key a line: name, key, tenant, kind, max,
    declared, override (max, by, at, why, until), held, waiting, per, burst,
    algorithm. A max of null does not limit.
    """
    from headgate.cli.show import json_line, say, table

    with store(url, app) as opened:
        found = opened.limits_sync(name)
    if json:
        for limit in found:
            json_line(limit)
    elif not found:
        say("No limits are declared." if name is None else f"No limit is named {name!r}.")
    else:
        columns = ("limit", "tenant", "kind", "max", "held", "waiting", "override")
        rows = (
            (
                limit.key if limit.key == limit.name else f"  {limit.key}",
                limit.tenant,
                limit.kind,
                _max(limit),
                "" if limit.kind == "rate" else limit.held,
                limit.waiting,
                "" if limit.override is None else _override(limit.override, limit.declared),
            )
            for limit in found
        )
        table(columns, rows, right=("max", "held", "waiting"))
    if name is not None and not found:
        raise typer.Exit(FAILED)


def _max(limit: LimitInfo) -> str:
    if limit.max is None:
        return "no limit"
    return f"{limit.max:,} per {limit.per:g} s" if limit.per else f"{limit.max:,}"


def _override(override: OverrideInfo, declared: int | None) -> str:
    from headgate.cli.times import ago

    words = [f"instead of {'no limit' if declared is None else declared}", f"set {ago(override.at)}"]
    words += [f"by {override.by}"] if override.by else []
    words += [f"ends {ago(override.until)}"] if override.until else []
    return ", ".join(words) + (f": {override.why}" if override.why else "")


def workers(json: Json = False, url: Url = None, app: AppName = None) -> None:
    """List the workers.

    headgate workers

    --json prints one worker a line: id, host, pid, queues (null: all), tasks,
    concurrency, running, registered_at, lease_until.
    """
    from headgate.cli.show import json_line, say, table
    from headgate.cli.times import ago

    with store(url, app) as opened:
        found = opened.workers_sync()
    if json:
        for worker in found:
            json_line(worker)
    elif not found:
        say("No workers.")
    else:
        rows = (
            (
                worker.id,
                f"{worker.host} {worker.pid}",
                "all" if worker.queues is None else ", ".join(worker.queues),
                len(worker.tasks),
                f"{worker.running:,} of {worker.concurrency:,}",
                ago(worker.registered_at),
                ago(worker.lease_until),
            )
            for worker in found
        )
        columns = ("worker", "process", "queues", "tasks", "running", "started", "lease ends")
        table(columns, rows, right=("tasks", "running"))


def audit(json: Json = False, url: Url = None, app: AppName = None) -> None:
    """Check that everything the store keeps about admission fits together. Exits with 1 if it does not.

    headgate audit

    --json prints one object: ok, problems.
    """
    from headgate.cli.show import json_line, say

    with store(url, app) as opened:
        report = opened.audit_sync()
    if json:
        json_line({"ok": report.ok, "problems": report.problems})
    elif report.ok:
        say("No problems: every slot has its running attempt, and no waiting job is forgotten.")
    else:
        count = len(report.problems)
        say(f"{count} problem{'' if count == 1 else 's'}:\n{report}")
    if not report.ok:
        raise typer.Exit(FAILED)
