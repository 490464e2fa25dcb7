"""Attempts of tasks that run in a process of the pool.

What becomes of an attempt is decided where its task ran, since the exception stays there. Here it is only overruled: by
the timeout, by a worker that stops, or by the end of the process. An attempt has not ended before its process has
answered or is really gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from headgate.clock import SECOND
from headgate.engine import contract
from headgate.engine.contract import Outcome, Snoozed, Succeeded
from headgate.errors import CancelJob, FailJob, ProcessDied, RaisedInProcess, RetryLater, Snooze, Throttled
from headgate.hooks.carried import Carried
from headgate.hooks.context import ProgressSink, SpentSink
from headgate.worker.pool.frames import Ended, Raised, outcome_of
from headgate.worker.pool.pool import Pool
from headgate.worker.pool.pool_process import PoolProcess
from headgate.worker.run.running_attempt import RunningAttempt

LAST_WORDS = 1.0
"""Seconds that a task has, once a cancel was asked or the worker stops, before its process is killed."""


class ProcessCalls:
    """Calls tasks in the processes of one pool. `progress` and `spent` take what they report, `begun` is told when one
    has its process: its timeout counts from then on. `carried` travels there with each."""

    def __init__(
        self,
        pool: Pool,
        progress: ProgressSink,
        spent: SpentSink,
        begun: Callable[[RunningAttempt], None],
        carried: Carried,
    ) -> None:
        self.pool = pool
        self._progress = progress
        self._spent = spent
        self._begun = begun
        self._carried = carried

    async def outcome(self, run: RunningAttempt) -> Outcome:
        """Run the attempt; what the store is to be told. Raises CancelledError if it was stopped."""
        outcome, raised = await self._ended(run)
        if raised is not None:
            run.error = _as_exception(outcome, raised)
        return outcome

    async def call(self, run: RunningAttempt) -> Any:
        """The same for middleware: the result as a JSON value, or what the task raised."""
        outcome, raised = await self._ended(run)
        if isinstance(outcome, Succeeded):
            one = run.attempt
            opened = run.sealing.open("result", outcome.result, one.task, one.job, one.tenant)
            return msgspec.json.decode(opened)
        error = _as_exception(outcome, raised or Raised("", "", ""))
        run.remote = error, outcome
        raise error

    async def _ended(self, run: RunningAttempt) -> tuple[Outcome, Raised | None]:
        process = await self.pool.take()
        try:
            self._begun(run)
            ended = await self._until_it_ends(run, process)
        except BaseException:
            process.kill()
            await _until_gone(process)
            raise
        self.pool.give_back(process, ended.memory)
        outcome = outcome_of(ended)
        if run.stop_reason == "timeout" or (run.stop_reason == "release" and type(outcome) is not Succeeded):
            raise asyncio.CancelledError
        return outcome, ended.raised

    async def _until_it_ends(self, run: RunningAttempt, process: PoolProcess) -> Ended:
        carried = self._carried.given()
        answer = process.run(run.attempt, run.context.worker, self._progress, self._spent, carried)
        while True:
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                _stop(run, process)
            except ProcessDied:
                if process.killed:
                    raise asyncio.CancelledError from None
                raise


def _stop(run: RunningAttempt, process: PoolProcess) -> None:
    """A cancel and the end of a worker leave the task a moment; its timeout and a lost lease do not."""
    if run.stop_reason in ("cancel", "release"):
        process.ask_to_end()
        asyncio.get_running_loop().call_later(LAST_WORDS, _kill_if_it_runs, run, process)
    else:
        process.kill()


def _kill_if_it_runs(run: RunningAttempt, process: PoolProcess) -> None:
    if process.runs(run.attempt):
        process.kill()


async def _until_gone(process: PoolProcess) -> None:
    """Slots are given back when the process is gone, whatever asks for them meanwhile."""
    while not process.ended.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(process.ended)


def _as_exception(outcome: Outcome, raised: Raised) -> Exception:
    """What the task raised, as far as its worker can tell."""
    match raised.kind:
        case "headgate.errors.Snooze":
            delay = outcome.delay if isinstance(outcome, Snoozed) else 0
            return Snooze(delay / SECOND)
        case "headgate.errors.Throttled":
            said = outcome if isinstance(outcome, contract.Throttled) else None
            return Throttled(said.delay / SECOND if said else 0, said.name if said else None)
        case "headgate.errors.RetryLater":
            return RetryLater(reason=raised.message)
        case "headgate.errors.CancelJob":
            return CancelJob(raised.message)
        case "headgate.errors.FailJob":
            return FailJob(raised.message)
        case _:
            return RaisedInProcess(raised.kind, raised.message, raised.trace)
