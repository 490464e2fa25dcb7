"""What is shown: one reading of a store, bounded however much it holds."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headgate.app.info import JobInfo, LimitInfo, QueueInfo, WorkerInfo
from headgate.app.store_info import HistoryInfo, TotalsInfo

if TYPE_CHECKING:
    from headgate.app.app import App

COUNTED = 10_000
TIGHTEST = 50
FAILED = 8
HOUR = 3600


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a store stands at one moment. `limits` are the tightest keys, `history` is that of the last hour."""

    now: datetime
    totals: TotalsInfo
    queues: list[QueueInfo]
    limits: list[LimitInfo]
    workers: list[WorkerInfo]
    history: list[HistoryInfo]
    failed: list[JobInfo]

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return msgspec.structs.asdict(self) | {"failed": [job.to_dict() for job in self.failed]}


async def read(app: App) -> Reading:
    """Ask the store."""
    return Reading(
        now=await app.now(),
        totals=await app.totals(most=COUNTED),
        queues=await app.queues(most=COUNTED),
        limits=await app.tightest(size=TIGHTEST),
        workers=await app.workers(),
        history=await app.history(HOUR),
        failed=await app.jobs(state="failed", size=FAILED),
    )
