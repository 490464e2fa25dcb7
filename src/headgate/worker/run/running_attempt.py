"""One attempt while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Literal

from headgate.engine.contract import Attempt, Outcome
from headgate.hooks.context import JobContext
from headgate.limits.adapt import Adaptive
from headgate.sealing import PLAIN, Sealing
from headgate.worker.runnable import Runnable

StopReason = Literal["cancel", "timeout", "release", "abandon"]
"""Why the worker asks an attempt to end: a cancel was asked, its time is up, the worker stops, the lease is gone."""


class RunningAttempt:
    """One attempt while it runs. `stop_reason` stays None unless the worker asks it to end; the first reason counts."""

    __slots__ = (
        "attempt", "begun", "context", "error", "handle", "in_process", "in_thread", "learning", "remote", "sealing",
        "since", "started", "stop_reason", "task", "threaded", "timer",
    )  # fmt: skip

    def __init__(
        self,
        attempt: Attempt,
        task: Runnable,
        context: JobContext,
        sealing: Sealing = PLAIN,
        *,
        in_process: bool = False,
    ) -> None:
        self.attempt = attempt
        self.task = task
        self.context = context
        self.sealing = sealing
        self.stop_reason: StopReason | None = None
        self.error: BaseException | None = None
        """What it ended with, once it has ended."""
        self.remote: tuple[BaseException, Outcome] | None = None
        """What it raised in a process of the pool, as it is seen here, and what the store is to be told of it."""
        self.in_process = in_process
        """Whether it runs in a process of the pool."""
        self.threaded = not (task.is_async or in_process)
        """Whether it has a thread for itself."""
        self.in_thread = self.threaded
        """Whether it is in code that cannot be interrupted: what surrounds a synchronous task can be."""
        self.since = time.monotonic()
        self.started = False
        self.begun = False
        """Whether the history has its start."""
        self.learning: Mapping[str, Adaptive] | None = None
        """The keys whose number follows how it ends."""
        self.handle: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.since

    def encode_result(self, value: Any) -> str:
        """A result as the store keeps it; raises PayloadError."""
        text = self.task.encode_result(value)
        if text == "null" and not self.sealing.active:
            return text
        one = self.attempt
        return self.sealing.seal("result", text, one.task, one.job, one.tenant)

    def interrupt(self, reason: StopReason) -> None:
        """Ask it to end. A coroutine that has not begun sees the reason when it does; a thread sees the flag only."""
        if self.stop_reason is None or reason == "abandon":
            self.stop_reason = reason
            self.context.ask_to_end()
            if self.handle is not None and self.started and not self.in_thread:
                self.handle.cancel()
