"""A stored error taken apart: the exception's class, what it says, and its traceback."""

from __future__ import annotations

import re
from typing import NamedTuple

from headgate.errors import JobFailed
from headgate.job import Job

# The worker writes `Class: message`, then the traceback, of which the beginning may be cut off and stands as `…`.
_TRACE = re.compile(r"\n(?=Traceback \(most recent call last\):|  \+ Exception Group Traceback|…)")
_CLASS = re.compile(r"((?:\w+\.)*(?:<locals>\.|\w+\.)*[A-Z]\w*)(?:: |$)")


class Failure(NamedTuple):
    """What is known about an error. `kind` is empty where it was no exception, `traceback` where there is none."""

    kind: str
    message: str
    traceback: str


def failure(error: str | None) -> Failure:
    """Take a stored error apart."""
    text = (error or "").strip()
    parts = _TRACE.split(text, maxsplit=1)
    summary, trace = parts[0], parts[1] if len(parts) > 1 else ""
    first_line, newline, rest = summary.partition("\n")
    found = _CLASS.match(first_line)
    if found is None:
        return Failure("", summary, trace)
    return Failure(found[1], first_line[found.end() :] + newline + rest, trace)


def job_failed(job: Job) -> JobFailed:
    """The error that `result()` raises about a failed job."""
    kind, message, trace = failure(job.error)
    return JobFailed(
        f"job {job.id!r} ({job.task}) failed: {job.error or 'without a message'}",
        job_id=job.id,
        task=job.task,
        error_type=kind,
        error_message=message,
        traceback=trace,
    )
