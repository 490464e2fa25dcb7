"""Jobs as they are shown: payloads hidden from readers where the server is told so, and whatever `redact` leaves."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from headgate.app.info import JobInfo
from headgate.web.roles import Identity
from headgate.web.route import Call
from headgate.web.settings import WebSettings

HIDDEN = "hidden"
PAYLOADS = ("args", "result", "progress", "metadata", "headers")


def shown(call: Call, info: JobInfo) -> dict[str, Any]:
    """A job for the caller of the API."""
    return _for(info, call.who, call.settings)


def for_reading(info: JobInfo, who: Identity, settings: WebSettings) -> JobInfo:
    """A job for the reader of a page."""
    if settings.redact is None and (who.sees_payloads or not settings.hide_payloads):
        return info
    changed = _for(info, who, settings)
    known = {name: changed[name] for name in (*PAYLOADS, "error") if name in changed}
    return msgspec.structs.replace(info, **known)


def _for(info: JobInfo, who: Identity, settings: WebSettings) -> dict[str, Any]:
    job = cast("dict[str, Any]", msgspec.to_builtins(info, str_keys=True))
    if settings.hide_payloads and not who.sees_payloads:
        job |= {name: HIDDEN for name in PAYLOADS if job.get(name)}
        job["error"] = job["error"] and HIDDEN
        job["attempts"] = [one | {"error": one["error"] and HIDDEN} for one in job["attempts"]]
    return job if settings.redact is None else settings.redact(job, who)
