"""Looking at jobs: `jobs`, `job`, `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.ids import full_id
from headgate.cli.notes import point_out
from headgate.cli.options import (
    AppName,
    ErrorText,
    Factory,
    Json,
    LimitKey,
    Queue,
    Since,
    State,
    TaskName,
    Tenant,
    Until,
    Url,
    chosen,
)
from headgate.cli.store import open_store
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.app.app import App
    from headgate.app.info import JobInfo

JobId = Annotated[
    str, typer.Argument(metavar="ID", help="The job's id, or a beginning that no other id has.")
]
JOBS_PER_PAGE = 1000
NARROW = 100
SPARED = ("queue", "attempt")
"""What a terminal of fewer than 100 columns is spared, so that the rest can be read; `headgate job` shows it."""


def jobs(
    state: State = None,
    queue: Queue = None,
    task: TaskName = None,
    tenant: Tenant = None,
    limit: LimitKey = None,
    error: ErrorText = None,
    since: Since = None,
    until: Until = None,
    size: Annotated[int, typer.Option("--size", "-n", min=1, help="Show at most so many.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Go on after this job of the last page.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only say how many there are.")] = False,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """List jobs, newest first.

    headgate jobs --state failed --task send
    headgate jobs --limit customer=42               what waits behind customer 42
    headgate jobs --state waiting --count
    headgate jobs --error "no such user" --since 2h
    headgate jobs --json -n 100000 | jq -r .error

    --json prints one job a line; its fields are those of `headgate job --json`,
    with no past attempts.
    """
    filter = chosen(state, queue, task, tenant, limit, error, since, until)
    with open_store(url, app, factory=factory) as opened:
        if count:
            number = opened.count_sync(**filter)
            if not number:
                point_out(opened, filter)
            _count(number, json)
            return
        found = _pages(opened, filter, size, after)
        total = 0 if json else opened.count_sync(**filter)
        if not found:
            point_out(opened, filter)
    _list(found, total, json)


def _count(number: int, json: bool) -> None:
    from headgate.cli.show import json_line, say

    json_line({"count": number}) if json else say(str(number))


def _pages(app: App, filter: dict[str, Any], size: int, after: str | None) -> list[JobInfo]:
    found: list[JobInfo] = []
    if after is not None:
        after = full_id(app, after)
        app.job_sync(after)
    while page := app.jobs_sync(**filter, size=min(size - len(found), JOBS_PER_PAGE), after=after):
        found += page
        after = page[-1].id
        if len(found) >= size or len(page) < JOBS_PER_PAGE:
            break
    return found


def _list(found: list[JobInfo], total: int, json: bool) -> None:
    from headgate.cli.show import json_line, output, say, state_text, table
    from headgate.cli.times import ago

    if json:
        for job in found:
            json_line(job.to_dict())
        return
    if not found:
        say("No jobs.")
        return
    rows = [
        {"id": job.id, "task": job.task, "queue": job.queue, "state": state_text(job.state),
         "when": ago(_when(job)), "attempt": job.attempt, "about": _about(job)}
        for job in found
    ]  # fmt: skip
    narrow = output().width < NARROW
    columns = [name for name in rows[0] if not (narrow and name in SPARED)]
    table(
        columns, ([row[name] for name in columns] for row in rows), right=("attempt",), whole=("id", "state")
    )
    if total > len(found):
        say(f"{len(found):,} of {total:,} jobs; the next page: --after {found[-1].id}")


def _when(job: JobInfo) -> Any:
    if job.state == "scheduled":
        return job.due
    return job.ended_at or job.started_at or job.enqueued_at


def _about(job: JobInfo) -> str:
    """What matters most about a job in its state."""
    from headgate.app.explain import error_line
    from headgate.cli.times import ago

    if job.waiting_on is not None:
        return f"waits on {job.waiting_on}"
    if job.error and job.state != "succeeded":
        return error_line(job.error)[:100]
    if job.state == "running":
        return f"on {job.worker}"
    words = [f"tenant {job.tenant}"] if job.tenant else []
    words += [f"share {job.share}"] if job.share and job.share != job.tenant else []
    words += [f"expires {ago(job.expires)}"] if job.expires else []
    return ", ".join(words)


def job(
    id: JobId,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Whole tracebacks, of every attempt.")
    ] = False,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Show everything about one job, and the end of its last traceback.

    headgate job 019a8b2c7d
    headgate job 019a8b2c7d --traceback
    headgate job 019a8b2c7d --json | jq .attempts

    --json prints one object: id, task, queue, state, args, tenant, priority,
    due, enqueued_at, started_at, ended_at, limits, waiting_on, worker, attempt,
    tries, suspicion, lost, retry, unique, expires, share, metadata, headers,
    cancel_requested, error, result, progress and attempts (number, outcome, started_at, ended_at, worker, error).
    """
    from headgate.cli.job_page import show_job
    from headgate.cli.show import json_line

    with open_store(url, app, factory=factory) as opened:
        id = full_id(opened, id)
        info = opened.job_sync(id).info_sync()
        if json:
            json_line(info.to_dict())
        else:
            show_job(info, str(opened.explain_sync(id)), traceback=traceback)


def explain(
    id: JobId, json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False
) -> None:
    """Say why a job is where it is: the key it waits on, the jobs that hold it, its place in line.

    headgate explain 019a8b2c7d

    --json prints one object: id, state, sentence, key, tenant, holders, place,
    earliest.
    """
    from headgate.cli.show import json_line, say

    if not id:
        raise ConfigError("the job's id is empty")
    with open_store(url, app, factory=factory) as opened:
        explanation = opened.explain_sync(full_id(opened, id))
    json_line(explanation) if json else say(str(explanation))
