"""Jobs as they are shown: payloads hidden from readers where the server is told so, and whatever `redact` leaves."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from headgate.app.info import JobInfo
from headgate.web.route import Call

HIDDEN = "hidden"
PAYLOADS = ("args", "result", "progress", "metadata")


def shown(call: Call, info: JobInfo) -> dict[str, Any]:
    """A job for this caller."""
    job = cast("dict[str, Any]", msgspec.to_builtins(info, str_keys=True))
    if call.settings.hide_payloads and not call.who.sees_payloads:
        job |= {name: HIDDEN for name in PAYLOADS if job.get(name) is not None}
        job["error"] = None if job["error"] is None else HIDDEN
        job["attempts"] = [one | {"error": one["error"] and HIDDEN} for one in job["attempts"]]
    return job if call.settings.redact is None else call.settings.redact(job, call.who)
