"""Jobs as they are shown: payloads hidden from readers where the server is told so, and whatever `redact` leaves."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.app.explain import Explanation, error_line
from headgate.app.failures import FailureGroup, Failures, pattern_of
from headgate.app.info import JobInfo
from headgate.app.stream import JobUpdate
from headgate.web.roles import Identity
from headgate.web.route import Call
from headgate.web.settings import WebSettings

HIDDEN = "hidden"
PAYLOADS = ("args", "result", "progress", "metadata", "headers")


class RetryShown(msgspec.Struct, frozen=True):
    """A retry policy. Delays are seconds; `attempts` counts the first run, too."""

    attempts: int
    delay: float
    backoff: float
    max_delay: float
    jitter: float
    losses: int


_OTHERWISE: dict[str, Any] = {
    "retry": RetryShown,
    "metadata": dict[str, Any] | str,
    "headers": dict[str, str] | str,
}
JobShown = msgspec.defstruct(
    "Job",
    [(field.name, _OTHERWISE.get(field.name, field.type)) for field in msgspec.structs.fields(JobInfo)],
    namespace={"__doc__": (JobInfo.__doc__ or "").partition("\n")[0]},
)
"""What a job looks like in an answer: for the document. Payloads that are hidden are the text `hidden`."""


def shown(call: Call, info: JobInfo) -> dict[str, Any]:
    """A job for the caller of the API."""
    return _for(info, call.who, call.settings)


def for_reading(info: JobInfo, who: Identity, settings: WebSettings) -> JobInfo:
    """A job for the reader of a page."""
    if _open(who, settings):
        return info
    changed = _for(info, who, settings)
    known = {name: changed[name] for name in (*PAYLOADS, "error") if name in changed}
    told = {one["number"]: one.get("error") for one in changed.get("attempts", ())}
    attempts = tuple(msgspec.structs.replace(one, error=told.get(one.number)) for one in info.attempts)
    return msgspec.structs.replace(info, **known, attempts=attempts)


def update_shown(update: JobUpdate, info: JobInfo | None, who: Identity, settings: WebSettings) -> JobUpdate:
    """A step of a job; `info` is the job, where `redact` has to see it."""
    if info is not None:
        changed = _for(info, who, settings)
        return msgspec.structs.replace(update, progress=changed.get("progress"), error=changed.get("error"))
    if _open(who, settings):
        return update
    return msgspec.structs.replace(update, progress=update.progress and HIDDEN, error=update.error and HIDDEN)


def sentence(explained: Explanation, info: JobInfo | None, who: Identity, settings: WebSettings) -> str:
    """An explanation as this reader may see it: the error that it tells is that of the job as it is shown to them."""
    if info is None or not info.error or _open(who, settings):
        return str(explained)
    told = _for(info, who, settings).get("error") or HIDDEN
    return str(explained).replace(error_line(info.error).rstrip("."), error_line(told).rstrip("."))


def failures_shown(
    found: Failures, newest: dict[str, JobInfo], who: Identity, settings: WebSettings
) -> Failures:
    """Groups of failures as this reader may see them; `newest` has the newest job of each group."""
    if _open(who, settings):
        return found
    groups = tuple(_group(group, newest.get(group.ids[0]), who, settings) for group in found.groups)
    return msgspec.structs.replace(found, groups=groups)


def _group(group: FailureGroup, newest: JobInfo | None, who: Identity, settings: WebSettings) -> FailureGroup:
    told = HIDDEN if newest is None else _for(newest, who, settings).get("error") or HIDDEN
    line = told.partition("\n")[0].strip()
    hidden = line == HIDDEN
    return msgspec.structs.replace(
        group,
        error=line,
        pattern=pattern_of(line),
        common="" if hidden or line != group.error else group.common,
    )


def hides(who: Identity, settings: WebSettings) -> bool:
    """Whether a reader may not see all of a job."""
    return not _open(who, settings)


def _open(who: Identity, settings: WebSettings) -> bool:
    return settings.redact is None and (who.sees_payloads or not settings.hide_payloads)


def _for(info: JobInfo, who: Identity, settings: WebSettings) -> dict[str, Any]:
    job = info.to_dict()
    if settings.hide_payloads and not who.sees_payloads:
        job |= {name: HIDDEN for name in PAYLOADS if job.get(name)}
        job["error"] = job["error"] and HIDDEN
        job["attempts"] = [one | {"error": one["error"] and HIDDEN} for one in job["attempts"]]
    return job if settings.redact is None else settings.redact(job, who)
