"""A worker that is a coroutine, for as long as it is needed. Standard library only."""

import asyncio
import contextlib
import os
import traceback
from collections.abc import AsyncGenerator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncGenerator[None]:
    """Run `work` meanwhile, then cancel it. Should it fail, the process ends: the run waits for nothing else."""
    task = asyncio.create_task(work)
    task.add_done_callback(_end_with)
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _end_with(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (failure := task.exception()):
        traceback.print_exception(failure)
        os._exit(1)
