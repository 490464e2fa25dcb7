"""Steering jobs: `cancel`, `restart`, `expedite`, `delete`, by ids or by a filter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.exits import FAILED
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
    from headgate.app.steering import Changed, Verb
    from headgate.engine.contract import Verdict

JOBS_PER_STEP = 500
MOST_TYPED = 20
"""Ids that may be beginnings: each is looked for alone. More than these come from a program."""
PAST = {"cancel": "cancelled", "restart": "restarted", "expedite": "expedited", "delete": "deleted"}

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of jobs, or their unique beginnings; - reads ids from a pipe."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a filter is applied.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many jobs a filter matches.")]


def _command(verb: Verb, help: str) -> Callable[..., None]:
    """A command that does nothing but one verb; the terminal reads its options from this signature."""

    def command(
        ids: Ids = None,
        state: State = None,
        queue: Queue = None,
        task: TaskName = None,
        tenant: Tenant = None,
        limit: LimitKey = None,
        error: ErrorText = None,
        since: Since = None,
        until: Until = None,
        yes: Yes = False,
        dry_run: DryRun = False,
        json: Json = False,
        url: Url = None,
        app: AppName = None,
        factory: Factory = False,
    ) -> None:
        filter = chosen(state, queue, task, tenant, limit, error, since, until)
        _steer(verb, ids, filter, _SteeringOptions(yes, dry_run, json), url, app, factory)

    command.__name__, command.__doc__ = verb, help
    return command


cancel = _command(
    "cancel",
    """End jobs. What has not started ends at once; what runs is asked to.

    headgate cancel 019a8b2c7d
    headgate cancel --queue email --state waiting
    headgate jobs --task send --json | jq -r .id | headgate cancel -

    --json prints one object: verb, done, refused (id, state, error). Exits with
    1 if a given id was refused.
    """,
)

expedite = _command(
    "expedite",
    """Make scheduled jobs due now, retries that wait for their time included.

    headgate expedite 019a8b2c7d
    headgate expedite --task send

    --json prints one object: verb, done, refused (id, state, error). Exits with
    1 if a given id was refused.
    """,
)

delete = _command(
    "delete",
    """Remove jobs that have ended.

    headgate delete 019a8b2c7d
    headgate delete --state cancelled --yes

    --json prints one object: verb, done, refused (id, state, error). Exits with
    1 if a given id was refused.
    """,
)


def restart(
    ids: Ids = None,
    state: State = None,
    queue: Queue = None,
    task: TaskName = None,
    tenant: Tenant = None,
    limit: LimitKey = None,
    error: ErrorText = None,
    since: Since = None,
    until: Until = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another argument for one job; may be repeated."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Run failed or cancelled jobs again, with fresh retries.

    headgate restart 019a8b2c7d
    headgate restart --state failed --task send --since 2h
    headgate restart 019a8b2c7d --set to=eve@example.com --app myproject.jobs:app

    --set replaces an argument of one job, as often as it is given; the app that
    declares its task checks them. A value that is not JSON is text.

    --json prints one object: verb, done, refused (id, state, error). Exits with
    1 if a given id was refused.
    """
    filter = chosen(state, queue, task, tenant, limit, error, since, until)
    if set:
        _restart_changed(ids or [], filter, set, _SteeringOptions(yes, dry_run, json), url, app, factory)
        return
    _steer("restart", ids, filter, _SteeringOptions(yes, dry_run, json), url, app, factory)


class _SteeringOptions:
    """How it is to be done, whatever it is."""

    def __init__(self, yes: bool, dry_run: bool, json: bool) -> None:
        self.yes, self.dry_run, self.json = yes, dry_run, json


def _steer(
    verb: Verb,
    ids: list[str] | None,
    filter: dict[str, Any],
    how: _SteeringOptions,
    url: str | None,
    target: str | None,
    factory: bool,
) -> None:
    if bool(ids) == bool(filter):
        raise ConfigError(
            f"`headgate {verb}` takes either ids or a filter such as --queue, and needs one of them"
        )
    with open_store(url, target, factory=factory) as app:
        wanted = _typed(app, ids) if ids else _matching(app, verb, filter)
        if not wanted:
            point_out(app, filter)
        if how.dry_run:
            _say_count(verb, len(wanted), how.json)
            return
        if not ids and not _agreed(verb, len(wanted), how):
            raise typer.Exit(FAILED)
        changed = _batches(app, verb, wanted)
    _report(verb, changed, how.json)
    if ids and changed.refused:
        raise typer.Exit(FAILED)


def _restart_changed(
    ids: list[str],
    filter: dict[str, Any],
    set: list[str],
    how: _SteeringOptions,
    url: str | None,
    target: str | None,
    factory: bool,
) -> None:
    """One job, with other arguments."""
    from headgate.cli.enqueue import pairs
    from headgate.cli.show import json_line, say

    if len(ids) != 1 or filter or how.dry_run:
        raise ConfigError("--set is for one job: give its id, and no filter")
    if target is None:
        raise ConfigError(
            "--set needs --app MODULE:APP, which declares the job's task and checks its arguments"
        )
    with open_store(url, target, factory=factory) as app:
        job = full_id(app, ids[0])
        app.restart_sync(job, arguments=pairs(set))
    if how.json:
        json_line({"verb": "restart", "done": 1, "refused": []})
    else:
        say(f"Job {job} restarted with other arguments.")


def _typed(app: App, ids: list[str]) -> list[str]:
    """The ids that were given; only those that were typed may be beginnings."""
    if ids == ["-"]:
        return sys.stdin.read().split()
    whole = len(ids) > MOST_TYPED
    return list(dict.fromkeys(id if whole or not id else full_id(app, id) for id in ids))


def _matching(app: App, verb: Verb, filter: dict[str, Any]) -> list[str]:
    """The ids of the jobs that match and whose state allows it."""
    from headgate.app.filters import engine_filter
    from headgate.app.steering import fitting_states

    found, after = list[str](), None
    wanted: dict[str, Any] = {**filter, "state": fitting_states(verb, engine_filter(filter).states)}
    while page := app.jobs_sync(**wanted, size=JOBS_PER_STEP, after=after):
        found += [job.id for job in page]
        after = page[-1].id
    return found


def _agreed(verb: Verb, count: int, how: _SteeringOptions) -> bool:
    if how.yes or count == 0 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm(f"{verb.capitalize()} {_jobs(count)}?", err=True)


def _batches(app: App, verb: Verb, ids: Sequence[str]) -> Changed:
    from headgate.app.steering import Changed
    from headgate.cli.show import progress

    done, refused, asked = 0, list["Verdict"](), 0
    with progress(verb, len(ids)) as bar:
        for start in range(0, len(ids), JOBS_PER_STEP):
            batch = ids[start : start + JOBS_PER_STEP]
            changed: Changed = getattr(app, f"{verb}_sync")(batch)
            done, asked = done + changed.done, asked + changed.asked
            refused += changed.refused
            bar.advance(len(batch))
    return Changed(done, tuple(refused), asked)


def _say_count(verb: Verb, count: int, json: bool) -> None:
    from headgate.cli.show import json_line, say

    json_line({"verb": verb, "matching": count}) if json else say(f"{_jobs(count)} would be {PAST[verb]}.")


def _report(verb: Verb, changed: Changed, json: bool) -> None:
    from headgate.app.handle import refusal
    from headgate.cli.show import errors, json_line, readable, say

    reasons = [
        {
            "id": one.id,
            "state": None if one.state is None else one.state.value,
            "error": str(refusal(verb, one)),
        }
        for one in changed.refused
    ]
    if json:
        json_line({"verb": verb, "done": changed.done, "refused": reasons})
        return
    for reason in reasons:
        errors().print(readable(f"headgate: {reason['error']}"), markup=False, soft_wrap=True)
    if changed.done or not reasons:
        say(_done(verb, changed))


def _done(verb: Verb, changed: Changed) -> str:
    """What ended is told apart from what runs on for a while."""
    ended = changed.done - changed.asked
    words = [f"{_jobs(ended)} {PAST[verb]}"] if ended or not changed.asked else []
    if changed.asked:
        were = "was" if changed.asked == 1 else "were"
        words.append(f"{_jobs(changed.asked, 'running job')} {were} asked to stop")
    return "; ".join(words) + "."


def _jobs(count: int, word: str = "job") -> str:
    return f"1 {word}" if count == 1 else f"{count:,} {word}s"
