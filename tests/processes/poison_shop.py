"""Jobs of which some kill or block the process they run in."""

from __future__ import annotations

import asyncio
import os
import time

from headgate import App

app = App(os.environ["HEADGATE_URL"])


@app.task
async def innocent(seconds: float = 0.3) -> str:
    """Work that only waits."""
    await asyncio.sleep(seconds)
    return "done"


@app.task
async def poison(after: float = 0.1) -> None:
    """Takes its process along."""
    await asyncio.sleep(after)
    os._exit(137)


@app.task
def other_poison(after: float = 0.1) -> None:
    """The same from a thread, as another task."""
    time.sleep(after)
    os._exit(1)


@app.task
async def block(seconds: float) -> None:
    """Stops the event loop for longer than its lease is kept."""
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


@app.task(max_concurrent=1)
async def hold(path: str) -> int:
    """Keeps its slot; the first attempt for ever."""
    with open(path, "a") as file:  # noqa: ASYNC230 - a line
        file.write(f"{os.getpid()} {time.time()}\n")
    with open(path) as file:  # noqa: ASYNC230
        if len(file.readlines()) == 1:
            await asyncio.Event().wait()
    return os.getpid()
