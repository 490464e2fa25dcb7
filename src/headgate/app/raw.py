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
from headgate.app.sharing import BY_TENANT, NOBODYS
from headgate.codec import encode_text
from headgate.errors import ConfigError
from headgate.ids import new_id
from headgate.job import DEFAULT_PRIORITY, Charge, NewJob
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
    expires: float | timedelta | datetime | None
    at_most: float | timedelta | None
    unique_for: float | timedelta | None
    share: str | None


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
    bound = own.bind([as_declared(limit) for limit in limits], by_job=True)
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
        *said.latest_start,
        said.at_most,
        said.unique_for,
        *_share(client, said),
    )


def _share(client: Client, said: JobOptions) -> tuple[str | None, Charge]:
    """A job that nothing is known of says its share itself, unless its queue is shared by tenants."""
    shared = client.shares.queues.get(said.queue)
    charge: Charge = "starts" if shared is None else shared.charge
    if said.share is not None or shared is None:
        return said.share, charge
    if shared.share_by not in (None, BY_TENANT):
        raise ConfigError(
            f"queue {said.queue!r} is shared by {shared.share_by!r}, which a raw job does not say; give share="
        )
    return (said.tenant if shared.share_by == BY_TENANT else "") or NOBODYS, charge
