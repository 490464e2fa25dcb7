"""Looking at what is not a job: `queues`, `limits`, `workers`, `audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.exits import FAILED
from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import store
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sized

    from headgate.app.app import App
    from headgate.app.audit import AuditReport
    from headgate.app.info import LimitInfo, OverrideInfo

SIZE = 100
"""How many limits and keys people see of a store that may have a million."""


def queues(json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False) -> None:
    """List the queues that have unfinished jobs or are paused.

    headgate queues

    --json prints one queue a line: name, paused, scheduled, ready, waiting,
    running.
    """
    from rich.text import Text

    from headgate.cli.show import json_line, say, table

    with store(url, app, factory=factory) as opened:
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
    size: Annotated[
        int | None,
        typer.Option(
            "--size", "-n", min=1, help="Show at most so many.", show_default=f"{SIZE}; all with --json"
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="KEY", help="Go on after this key of the last page.")
    ] = None,
    after_tenant: Annotated[
        str | None, typer.Option("--after-tenant", metavar="TENANT", help="The tenant of that key.")
    ] = None,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """List the limits, and their keys that are held, waited for or overridden.

    headgate limits
    headgate limits customer
    headgate limits customer --after customer=42

    --json prints one limit or key a line: name, key, tenant, kind, max,
    declared, override (max, by, at, why, until), held, waiting, per, burst,
    algorithm, exact. A max of null does not limit; where exact is false, held
    and waiting of a limit are lower bounds.
    """
    from headgate.cli.show import json_line, say, table

    with store(url, app, factory=factory) as opened:
        wanted = size or (None if json else SIZE)
        page, more = _page(opened, name, wanted, _place(after, after_tenant))
    if json:
        for limit in page:
            json_line(limit)
    elif not page:
        say(_none(name, after))
    else:
        columns = ("limit", "tenant", "kind", "max", "held", "waiting", "override")
        rows = (
            (
                limit.key if limit.key == limit.name else f"  {limit.key}",
                limit.tenant,
                limit.kind,
                _max(limit),
                "" if limit.kind == "rate" else _at_least(limit.held, limit),
                _at_least(limit.waiting, limit),
                "" if limit.override is None else _override(limit.override, limit.declared),
            )
            for limit in page
        )
        table(columns, rows, right=("max", "held", "waiting"))
        if more:
            say(f"{len(page):,} shown; the next page: {_next(page[-1])}")
    if name is not None and after is None and not page:
        raise typer.Exit(FAILED)


def _at_least(number: int, limit: LimitInfo) -> str:
    return str(number) if limit.exact else f"{number}+"


def _page(
    app: App, name: str | None, size: int | None, after: tuple[str, str, str] | None
) -> tuple[list[LimitInfo], bool]:
    """The records to show, and whether there are more behind them."""
    if size is None:
        return app.limits_sync(name, after=after), False
    found = app.limits_sync(name, size=size + 1, after=after)
    return found[:size], len(found) > size


def _place(key: str | None, tenant: str | None) -> tuple[str, str, str] | None:
    from headgate.keys import parse

    if key is None:
        if tenant is not None:
            raise ConfigError("--after-tenant belongs to --after KEY, which is missing")
        return None
    return parse(key)[0], key, tenant or ""


def _next(last: LimitInfo) -> str:
    """The options that continue, ready to be pasted into a shell."""
    from shlex import quote

    tenant = f" --after-tenant {quote(last.tenant)}" if last.tenant else ""
    return f"--after {quote(last.key)}{tenant}"


def _none(name: str | None, after: str | None) -> str:
    if after is not None:
        return "No more."
    return "No limits are declared." if name is None else f"No limit is named {name!r}."


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


def workers(json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False) -> None:
    """List the workers.

    headgate workers

    --json prints one worker a line: id, host, pid, queues (null: all), tasks,
    concurrency, running, registered_at, lease_until.
    """
    from headgate.cli.show import json_line, say, table
    from headgate.cli.times import ago

    with store(url, app, factory=factory) as opened:
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

    with store(url, app, factory=factory) as opened, progress("repair" if repair else "audit", None) as bar:
        report = opened.audit_sync(repair=repair, progress=lambda slices: bar.advance())
    if json:
        json_line({"ok": report.ok, "problems": report.problems, "repaired": report.repaired})
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
