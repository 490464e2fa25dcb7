"""Jobs of tasks that this program does not know: a producer or a server that has no code of theirs.

Nothing checks the arguments, and only what is said here limits the job, besides the caps of its task and queue, which
stores look up themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from headgate.app.client import Client
from headgate.app.options import JobOptions, OnConflict, check_priority, check_queue
from headgate.codec import encode_text
from headgate.ids import new_id
from headgate.job import DEFAULT_PRIORITY, NewJob
from headgate.keys import check_name
from headgate.limits.imported import as_declared
from headgate.limits.of_task import TaskLimits
from headgate.limits.parameters import Parameters
from headgate.retry import LOST_ONLY


class RawOptions(TypedDict, total=False):
    """What `Task.options` takes, but what belongs to a task."""

    priority: int | None
    delay: float | timedelta | None
    at: datetime | None
    tenant: str | None
    id: str | None
    unique: str | None
    on_conflict: OnConflict | None
    metadata: Mapping[str, Any] | None
    timeout: float | timedelta | None
    retention: float | timedelta | None
    headers: Mapping[str, str] | None


def raw_job(
    client: Client,
    task: str,
    args: Mapping[str, Any],
    queue: str,
    limits: Iterable[Any],
    options: RawOptions,
) -> NewJob:
    """One job, as far as it can be checked without its task."""
    name = check_name(task, "task name")
    said = JobOptions(check_queue(queue), check_priority(DEFAULT_PRIORITY), None, None).but(
        options, client.payload_limit
    )
    own = TaskLimits(Parameters(name, {}, {}), (), (), None)
    bound = own.bind([as_declared(limit) for limit in limits])
    client.limits.check_bound(bound)
    text = encode_text(dict(args), f"arguments of task {name!r}", client.json_limit)
    client.limits.mention_bound(bound)
    return NewJob(
        said.id or new_id(),
        name,
        said.queue,
        text,
        said.tenant,
        said.priority,
        said.delay,
        said.at,
        own.uses(None, said.tenant, bound),
        LOST_ONLY.policy,
        said.timeout,
        said.unique,
        said.on_conflict,
        said.metadata,
        said.retention,
        said.headers,
    )
