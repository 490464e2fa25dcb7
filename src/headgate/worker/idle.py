"""Working until there is nothing left to do: for tests and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.engine.contract import Engine
from headgate.hooks.hooks import Hooks
from headgate.limits import FloatingRule
from headgate.worker.events import Events
from headgate.worker.options import CONCURRENCY, options
from headgate.worker.run.worker_run import WorkerRun
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
    hooks = hooks or Hooks()
    events = Events(hooks.worker_listeners)
    worker_run = WorkerRun(engine, tasks, floating, chosen, events, hooks, drain=True)

    started_before = -1

    async def quiet() -> None:
        """A part has nothing left. When all have, time is asked for more; if it has none, that is the end.

        A ring meanwhile may be spurious, and asking may itself ring: it is followed by one more look, and by another
        only if that one started a job.
        """
        nonlocal started_before
        if all(part.still for part in worker_run.parts):
            found = await _time_brings_work(worker_run)
            rung = not all(part.still for part in worker_run.parts)
            more = found or (rung and worker_run.started != started_before)
            started_before = worker_run.started
            for part in worker_run.parts:
                part.exchange.ending = part.exchange.ending or not more
                part.exchange.wake()

    for part in worker_run.parts:
        part.exchange.quiet = quiet
    await _time_brings_work(worker_run)
    await worker_run.work()
    return worker_run.started - worker_run.floating.runs


async def _time_brings_work(worker_run: WorkerRun) -> bool:
    """Do every duty once; whether there is work now that was not there before."""
    for part in worker_run.parts:
        await part.sweep.sweep()
    found = any(part.sweep.found for part in worker_run.parts)
    if worker_run.ticker.needed:
        await worker_run.ticker.run_once()
        found = found or worker_run.ticker.found
    if worker_run.floating.needed:
        await worker_run.floating.run_once()
        found = found or worker_run.floating.found
    return found
