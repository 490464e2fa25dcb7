"""The app that a worker in another process serves; HEADGATE_URL says where its store is."""

import time

from headgate import App

app = App()


@app.task
async def started(n: int) -> int:
    """When it started, on the clock that all processes of a machine share."""
    return time.monotonic_ns()
