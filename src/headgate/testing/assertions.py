"""What a test claims about the jobs of an app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app.app import App
    from headgate.app.info import JobInfo
    from headgate.app.task import AnyTask

MOST = 1000
SHOWN = 10


def assert_enqueued(
    app: App,
    task: AnyTask | str,
    args: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    **fields: Any,
) -> list[JobInfo]:
    """The app's jobs of a task, with these arguments (those that are named) and fields of `JobInfo`, newest first.

    There must be at least one, or just `count` of them.
    """
    name = task if isinstance(task, str) else task.name
    found = [job for job in app.jobs_sync(task=name, size=MOST) if _fits(job, args or {}, fields)]
    if len(found) == count or (count is None and found):
        return found
    wanted = "one" if count is None else str(count)
    like = "".join(f", {key}={value!r}" for key, value in {**(args or {}), **fields}.items())
    shown = "\n".join(f"  {_line(job)}" for job in app.jobs_sync(size=SHOWN)) or "  none"
    raise AssertionError(
        f"{wanted} job of {name!r}{like} should be there, and there are {len(found)}; the newest jobs:\n{shown}"
    )


def assert_not_enqueued(
    app: App, task: AnyTask | str, args: Mapping[str, Any] | None = None, **fields: Any
) -> None:
    """No job of a task with these arguments and fields is there."""
    assert_enqueued(app, task, args, count=0, **fields)


def _fits(job: JobInfo, args: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    return all(job.args.get(name, ...) == value for name, value in args.items()) and all(
        getattr(job, name) == value for name, value in fields.items()
    )


def _line(job: JobInfo) -> str:
    return f"{job.task} {job.args} {job.state} in {job.queue!r}"
