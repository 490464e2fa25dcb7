"""Restarting a job with other arguments than those with which it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from headgate.app.client import Client
from headgate.engine.contract import NewArguments
from headgate.errors import ConfigError, PayloadError
from headgate.job import Job


def new_arguments(client: Client, job: Job, given: Any) -> NewArguments:
    """What a job is restarted with: its arguments, those that are given in the place of others.

    They are checked as those of a new job, and its task's limits are bound to them."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"arguments={given!r:.80}: a mapping of parameters to values is needed")
    task = client.tasks.get(job.task)
    if task is None:
        raise ConfigError(
            f"job {job.id!r}: this program has no task {job.task!r}, so that new arguments cannot be checked; name the "
            "app that declares it"
        )
    sealing = client.sealing
    opened = sealing.open("args", job.args, job.task, job.id, job.tenant)
    try:
        changed = task.changed(job, opened, cast("Mapping[str, Any]", given))
    except msgspec.MsgspecError as error:
        raise PayloadError(f"job {job.id!r}: its stored arguments cannot be read: {error}") from None
    sealed = sealing.seal("args", changed.args, job.task, job.id, job.tenant)
    return msgspec.structs.replace(changed, args=sealed)
