"""Working until there is nothing left to do: for tests and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.engine.contract import Engine
from headgate.hooks.hooks import Hooks
from headgate.limits import FloatingRule
from headgate.worker.events import Events
from headgate.worker.options import CONCURRENCY, options
from headgate.worker.run.worker_run import Shift
from headgate.worker.runnable import Runnable


async def run_until_idle(
    engine: Engine,
    tasks: Mapping[str, Runnable],
    *,
    floating: Sequence[FloatingRule] = (),
    queues: Iterable[str] | Mapping[str, float] | None = None,
    concurrency: int = CONCURRENCY,
    hooks: Hooks | None = None,
) -> int:
    """Run every job that can run without time passing; returns how many attempts that were.

    What needs time is left: jobs scheduled for later, retries in their back-off, waiters of a rate that has no token.
    Ticks of periodic tasks and refreshes of floating limits that are due count as work.
    """
    chosen = options(queues, concurrency, internal=bool(floating))
    shift = Shift(engine, tasks, floating, chosen, Events(), hooks or Hooks(), drain=True)

    async def quiet() -> None:
        """A part has nothing left. When all have, time is asked for more; if it has none, that is the end."""
        if all(part.still for part in shift.parts):
            found = await _time_brings_work(shift) or not all(part.still for part in shift.parts)
            for part in shift.parts:
                part.exchange.ending = part.exchange.ending or not found
                part.exchange.wake()

    for part in shift.parts:
        part.exchange.quiet = quiet
    await _time_brings_work(shift)
    await shift.work()
    return shift.started - shift.floating.runs


async def _time_brings_work(shift: Shift) -> bool:
    """Do every duty once; whether there is work now that was not there before."""
    for part in shift.parts:
        await part.sweep.sweep()
    found = any(part.sweep.found for part in shift.parts)
    if shift.ticker.needed:
        await shift.ticker.run_once()
        found = found or shift.ticker.found
    if shift.floating.needed:
        await shift.floating.run_once()
        found = found or shift.floating.found
    return found
