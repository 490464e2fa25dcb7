"""The watchdog: a thread that notices when the event loop stands still, says why, and keeps the leases meanwhile.

Code that blocks in a coroutine stops everything else of the worker: exchanges, renewals, other jobs. After a second
the watchdog names the job and the line it is in. The leases are renewed from its thread, but only for so long: a loop
that never goes on must lose its jobs in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from types import FrameType

from headgate.errors import HeadgateError
from headgate.hooks.context import CURRENT
from headgate.worker.events import Events
from headgate.worker.run.part_run import PartRun
from headgate.worker.run.running_attempt import RunningAttempt

log = logging.getLogger("headgate.worker")

PERIOD = 0.25
"""Seconds between two looks: each costs the event loop one callback."""
BLOCKED = 1.0
"""Seconds without a turn of the event loop after which it counts as blocked."""
LEASES = 2
"""For how many times the length of a lease renewals go on from the thread."""
FRAMES = 8
"""Lines of the stack that are shown: the innermost ones."""
OWN_FRAMES = os.path.dirname(__file__) + os.sep


class Watchdog:
    """Watches one event loop. `start` and `stop` are called on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, parts: Sequence[PartRun], events: Events) -> None:
        self._loop = loop
        self._parts = parts
        self._events = events
        self._looped = threading.get_ident()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._private: asyncio.AbstractEventLoop | None = None
        self._turn = time.monotonic()
        """When the event loop last had a turn, as far as the watchdog knows."""
        self._asked = False
        self._episode: str | None = None

    def start(self) -> None:
        """Watch from now on."""
        self._turn = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="headgate-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. Not waited for: it may be in a call that takes its time."""
        self._ended.set()

    @property
    def still_for(self) -> float:
        """Seconds for which the event loop has stood still, as far as that is known; from any thread."""
        return max(0.0, time.monotonic() - self._turn - PERIOD) if self._asked else 0.0

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(PERIOD):
            now = time.monotonic()
            # The whole process stood still (a stopped process, a machine asleep): that says nothing about the loop.
            self._turn, before = self._turn + max(0.0, now - before - 2 * PERIOD), now
            self._look(now)
            before += time.monotonic() - now
        if self._private is not None:
            self._private.close()

    def _look(self, now: float) -> None:
        if not self._asked:
            self._asked = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is nothing to watch any more
                self._loop.call_soon_threadsafe(self._answer)
        elif now - self._turn > BLOCKED:
            if self._episode is None:
                self._begin(now)
            self._renew(now)

    def _answer(self) -> None:
        """The event loop has a turn."""
        now, before = time.monotonic(), self._turn
        self._turn, self._asked = now, False
        if (what := self._episode) is not None:
            self._episode = None
            log.warning("the event loop goes on after %.1f s; it was blocked by %s", now - before, what)
            self._events.emit("unblocked", seconds=now - before)

    def _begin(self, now: float) -> None:
        frame = sys._current_frames().get(self._looped)  # pyright: ignore[reportPrivateUsage]
        run = self._run()
        what = f"job {run.attempt.job} ({run.attempt.task})" if run else "code that is no job's"
        self._episode = what
        text = "the event loop, and all of this worker with it, has been blocked for %.1f s by %s, %s"
        extra = {"job": run.attempt.job, "task": run.attempt.task} if run else {}
        log.warning(text, now - self._turn, what, _place(frame), extra=extra)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.emit, "blocked")

    def _run(self) -> RunningAttempt | None:
        """The attempt whose code the event loop is in, if it can be told."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        runs = [run for part in self._parts for run in _runs(part)]
        found = next((run for run in runs if run.handle is task), None)
        if found is None and sys.version_info >= (3, 12):  # a task that a job started
            context = task.get_context().get(CURRENT)
            found = next((run for run in runs if run.context is context), None)
        return found

    def _renew(self, now: float) -> None:
        """Renew what is due, in a private event loop, unless reports did not get through even before."""
        due = [
            part
            for part in self._parts
            if part.lease.due
            and now - self._turn < LEASES * part.lease.timing.lease
            and part.exchange.messages.stuck_for() - (now - self._turn) < part.lease.timing.stuck
        ]
        if due:
            if self._private is None:
                self._private = asyncio.new_event_loop()
            self._private.run_until_complete(_beat(due))


async def _beat(parts: Sequence[PartRun]) -> None:
    await asyncio.gather(*(_renew(part) for part in parts))


async def _renew(part: PartRun) -> None:
    try:
        await part.lease.beat(part.lease.id)
    except HeadgateError as error:
        log.warning("worker %s could not renew its lease: %s", part.lease.id, error)


def _runs(part: PartRun) -> list[RunningAttempt]:
    return [*list(part.runner.running.values()), *list(part.runner.abandoned)]


def _place(frame: FrameType | None) -> str:
    """Where the event loop's thread is, and how it got there from the task's function on."""
    if frame is None:
        return "which cannot be seen"
    stack = traceback.extract_stack(frame)
    own = [place for place, entry in enumerate(stack) if entry.filename.startswith(OWN_FRAMES)]
    stack = stack[own[-1] + 1 :] if own and own[-1] + 1 < len(stack) else stack
    last = stack[-1]
    lines = "".join(traceback.format_list(stack[-FRAMES:])).rstrip()
    return f"in line {last.lineno} of {last.filename} ({last.name}):\n{lines}"
