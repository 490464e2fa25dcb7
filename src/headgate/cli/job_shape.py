"""The JSON shapes where they differ from the records of the Python API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from headgate.app.info import JobInfo


def job_shape(job: JobInfo) -> dict[str, Any]:
    """A job; its retry policy by name and in seconds."""
    shape: dict[str, Any] = msgspec.to_builtins(job, builtin_types=())
    retry = job.retry
    shape["retry"] = {
        "attempts": retry.attempts,
        "delay": retry.delay / 1e6,
        "backoff": retry.backoff,
        "max_delay": retry.max_delay / 1e6,
        "jitter": retry.jitter,
        "losses": retry.losses,
    }
    return shape
