"""One attempt while it runs."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from headgate.engine.contract import Attempt
from headgate.hooks.context import JobContext
from headgate.worker.runnable import Runnable

Fate = Literal["cancel", "timeout", "release", "abandon"]
"""Why the worker asks an attempt to end: somebody cancelled it, its time is up, the worker stops, the lease is gone."""


class Run:
    """One attempt while it runs. `fate` stays None unless the worker asks it to end; the first reason counts."""

    __slots__ = (
        "attempt", "context", "error", "fate", "handle", "in_thread", "since", "started", "task", "threaded", "timer",
    )  # fmt: skip

    def __init__(self, attempt: Attempt, task: Runnable, context: JobContext) -> None:
        self.attempt = attempt
        self.task = task
        self.context = context
        self.fate: Fate | None = None
        self.error: BaseException | None = None
        """What it ended with, once it has ended."""
        self.threaded = not task.is_async
        """Whether it has a thread for itself."""
        self.in_thread = self.threaded
        """Whether it is in code that cannot be interrupted: what surrounds a synchronous task can be."""
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
            if self.handle is not None and self.started and not self.in_thread:
                self.handle.cancel()
