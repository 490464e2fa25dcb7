"""The event loops on which an app's workers run: a call that blocks one of them would wait for what it holds up."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from headgate.errors import HeadgateError


class WorkerLoops:
    """One entry per running worker."""

    def __init__(self) -> None:
        self._loops: list[asyncio.AbstractEventLoop] = []

    @contextmanager
    def here(self) -> Generator[None]:
        """A worker runs on the loop of the caller."""
        loop = asyncio.get_running_loop()
        self._loops.append(loop)
        try:
            yield
        finally:
            self._loops.remove(loop)

    def refuse_to_block(self, method: str) -> None:
        """Raise if the calling code stands on a loop that a worker runs on."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop in self._loops:
            raise HeadgateError(
                f"{method}_sync() would block the event loop that this app's worker runs on, and with it the job that "
                f"is waited for; write `await job.{method}()`, or call it from a thread"
            )
