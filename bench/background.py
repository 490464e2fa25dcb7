"""A worker that is a coroutine, for as long as it is needed. Standard library only."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncGenerator[None]:
    """Run `work` meanwhile, then cancel it. Should it fail, say so in the process's errors: nothing else would."""
    task = asyncio.create_task(work)
    task.add_done_callback(_complain)
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _complain(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (failure := task.exception()):
        raise failure
