"""`enqueue`: one job, its arguments checked by the app."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from headgate.cli.exits import INTERRUPTED, fail
from headgate.cli.options import AppDir, Factory, Json, Target, Url
from headgate.cli.store import find_app
from headgate.errors import ConfigError, JobCancelled, JobFailed, PayloadError

if TYPE_CHECKING:
    from headgate.app.handle import JobHandle

ENDED_AS: dict[type[Exception], str] = {JobFailed: "failed", JobCancelled: "cancelled"}


def enqueue(
    target: Target,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="One JSON object, or name=value pairs with JSON values."),
    ] = None,
    priority: Annotated[int | None, typer.Option("--priority", help="0 (first) to 99.")] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", metavar="TIME", help="Not before: 30, 5m, 2h, 1d.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Not before a time with its zone.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant of the job.")
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option("--unique", metavar="KEY", help="One unfinished job with this key at a time."),
    ] = None,
    unique_for: Annotated[
        str | None,
        typer.Option("--unique-for", metavar="TIME", help="Keep that key taken for so long after the start."),
    ] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option("--on-conflict", metavar="WHAT", help="If it is taken: return, raise, replace, update."),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option("--at-most", metavar="TIME", help="How long updates may put it off."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="Cancel it if it has not started so long after it was due."
        ),
    ] = None,
    share: Annotated[
        str | None, typer.Option("--share", metavar="SHARE", help="Whose part of a shared queue it takes.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", metavar="ID", help="An id of your own.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Another queue.")] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="TIME", help="Wait so long for the result, and print it.")
    ] = None,
    json: Json = False,
    url: Url = None,
    app_dir: AppDir = ".",
    factory: Factory = False,
) -> None:
    """Enqueue one job. Its arguments are checked by the app.

    headgate enqueue myproject.jobs:app send '{"to": "ada@example.com"}'
    headgate enqueue myproject.jobs:app send to=ada@example.com --delay 5m
    headgate enqueue myproject.jobs:app report --unique nightly --wait 60
    headgate enqueue myproject.jobs:app ping --unique p --unique-for 10m --expires 1h

    A value that is not JSON is text; a text that looks like JSON needs its
    quotes: to='"42"'.

    --json prints one object: id, created (false: an unfinished job with the
    same unique key was there), state, and with --wait also result, or error.
    Exits with 1 if the job that was waited for failed, was cancelled, or did
    not end in time; Ctrl-C ends the waiting, and not the job.
    """
    from headgate.cli.times import duration, instant

    app = find_app(url, target, app_dir, factory=factory)
    found = app.tasks.get(task)
    if found is None:
        raise ConfigError(f"{target} has no task {task!r}; it has: {', '.join(sorted(app.tasks)) or 'none'}")
    options = found.options(
        priority=priority,
        delay=None if delay is None else duration(delay, "--delay"),
        at=None if at is None else instant(at, "--at"),
        tenant=tenant,
        unique=unique,
        unique_for=None if unique_for is None else duration(unique_for, "--unique-for"),
        on_conflict=cast("Any", on_conflict),
        at_most=None if at_most is None else duration(at_most, "--at-most"),
        expires=None if expires is None else _expiry(expires),
        share=share,
        id=id,
        queue=queue,
    )
    patience = None if wait is None else duration(wait, "--wait")
    with app:
        made = options.job(**_arguments(arguments or []))
        with _named_when_interrupted(made.id):
            job = app.enqueue_sync(made)
        if patience is None:
            _say_job(job, json)
            return
        with _named_when_interrupted(job.id):
            _say_result(job, patience, json)


def _expiry(text: str) -> float | datetime:
    """A duration, or a point in time."""
    from headgate.cli.times import until

    given = until(text, "--expires")
    return given.total_seconds() if isinstance(given, timedelta) else given


@contextmanager
def _named_when_interrupted(id: str) -> Generator[None]:
    """Ctrl-C ends the command and not the job: say which one that is."""
    try:
        yield
    except KeyboardInterrupt:
        fail(f"interrupted; job {id} goes on without you: see `headgate job {id}`", INTERRUPTED)


def _arguments(given: list[str]) -> dict[str, Any]:
    if len(given) == 1 and given[0].lstrip().startswith(("{", "[")):
        return _object(given[0])
    return pairs(given)


def pairs(given: list[str]) -> dict[str, Any]:
    """Arguments that were typed as name=value."""
    return dict(_pair(text) for text in given)


def _object(text: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise PayloadError(f"the arguments {text!r} are not a JSON object: {error}") from None


def _pair(text: str) -> tuple[str, Any]:
    import msgspec

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise PayloadError(f"argument {text!r}: write name=value, or all arguments as one JSON object")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return name, value


def _say_job(job: JobHandle[Any], json: bool) -> None:
    from headgate.cli.show import json_line, say

    state = job.status_sync()
    if json:
        json_line({"id": job.id, "created": job.created, "state": state})
    elif job.created:
        say(f"Job {job.id} is {state}.")
    else:
        say(f"Job {job.id} has this unique key already; it is {state}. Nothing was enqueued.")


def _say_result(job: JobHandle[Any], wait: float, json: bool) -> None:
    import msgspec

    from headgate.cli.show import json_line, say

    about = {"id": job.id, "created": job.created}
    try:
        result = job.result_sync(timeout=wait)
    except (JobFailed, JobCancelled, TimeoutError) as error:
        if json:
            state = ENDED_AS.get(type(error)) or job.status_sync()
            json_line({**about, "state": state, "error": str(error)})
        fail(str(error))
    if json:
        json_line({**about, "state": "succeeded", "result": result})
    else:
        say(msgspec.json.encode(result).decode())
