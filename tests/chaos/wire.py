"""What passes between a worker and its store, noted in the worker's process: when each renewal of its lease was sent,
when the exchange was sent that brought an attempt, and when the store had heard what an attempt had spent, or that its
key is to be closed.

These bounds hold however slow the machine is. A lease lasts at least its length from when a renewal was sent that
arrived; a job was claimed no earlier than its exchange was sent; a key is closed at the latest when the answer is
there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from headgate.engine.contract import Exchanged, Spent, Throttled
from headgate.worker.run.exchange_loop import ExchangeLoop
from headgate.worker.run.lease import Lease
from tests.chaos.notes import note, now


class Claim(NamedTuple):
    """Which worker claimed an attempt, and when its exchange was sent."""

    worker: str
    sent: int
    started_at: int


claims: dict[tuple[str, int], Claim] = {}
"""By job and attempt, what this process has claimed."""
latest: dict[str, int] = {}
"""By job, the last attempt of it that this process has claimed."""

_begin, _beat, _send = Lease.begin, Lease.beat, ExchangeLoop._send


async def _begin_noted(self: Lease) -> None:
    sent = now()
    await _begin(self)
    note("renewed", worker=self.id, sent=sent, seconds=self.timing.lease)


async def _beat_noted(self: Lease, id: str, *args: Any) -> Any:
    sent = now()
    answer = await _beat(self, id, *args)
    note("renewed", worker=id, sent=sent, seconds=self.timing.lease)
    return answer


def _noted(send: Callable[..., Awaitable[Exchanged]]) -> Callable[..., Awaitable[Exchanged]]:
    async def noted(self: ExchangeLoop, id: str, reports: Any, *args: Any) -> Exchanged:
        sent = now()
        answer = await send(self, id, reports, *args)
        for each in answer.attempts:
            claims[each.job, each.number] = Claim(id, sent, each.started_at)
            latest[each.job] = each.number
        for each in reports:
            if isinstance(each, Throttled | Spent) and (each.job, each.attempt) not in answer.refused:
                _note_heard(each, sent)
        return answer

    return noted


def _note_heard(report: Throttled | Spent, sent: int) -> None:
    who = {"job": report.job, "attempt": report.attempt, "sent": sent}
    if isinstance(report, Spent):
        note("heard", **who, units=report.units)
    else:
        note("closed", **who, seconds=report.delay / 1e6)


def listen() -> None:
    """From now on, in this process."""
    Lease.begin, Lease.beat = _begin_noted, _beat_noted  # type: ignore[method-assign]
    ExchangeLoop._send = _noted(_send)  # type: ignore[method-assign, assignment]
