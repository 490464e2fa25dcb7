"""One attempt while it runs."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from headgate.engine.contract import Attempt
from headgate.worker.run.context import JobContext, ProgressSink
from headgate.worker.runnable import Runnable

Fate = Literal["cancel", "timeout", "release", "abandon"]
"""Why the worker asks an attempt to end: somebody cancelled it, its time is up, the worker stops, the lease is gone."""


class Run:
    """One attempt while it runs. `fate` stays None unless the worker asks it to end; the first reason counts."""

    __slots__ = ("attempt", "context", "fate", "handle", "since", "started", "task", "timer")

    def __init__(self, attempt: Attempt, task: Runnable, sink: ProgressSink) -> None:
        self.attempt = attempt
        self.task = task
        self.context = JobContext(attempt, sink)
        self.fate: Fate | None = None
        self.since = time.monotonic()
        self.started = False
        self.handle: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.since

    def interrupt(self, fate: Fate) -> None:
        """Ask it to end. A coroutine that has not begun sees its fate when it does; a thread sees the flag only."""
        if self.fate is None or fate == "abandon":
            self.fate = fate
            self.context.ask_to_end()
            if self.handle is not None and self.started:
                self.handle.cancel()
