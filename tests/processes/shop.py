"""The app of these tests. Its jobs write down when they start and end, on the clock that all processes share."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

from headgate import App, ConcurrencyLimit, Retry, current_job

app = App(os.environ["HEADGATE_URL"])
STUBBORN = Retry(attempts=1000, delay=0)

_record = os.open(os.environ["HEADGATE_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(kind: str, key: str) -> None:
    """One line in one write: appended whole, whichever process writes."""
    job = current_job()
    line = f"{time.monotonic_ns()} {kind} {key} {job.id} {job.attempt} {os.getpid()}\n"
    os.write(_record, line.encode())


@contextmanager
def noted(key: str) -> Generator[None]:
    """A start and an end, also when the worker's fence cancels the attempt."""
    note("start", key)
    try:
        yield
    finally:
        note("end", key)


@app.task(retry=STUBBORN)
async def visit(
    customer: Annotated[int, ConcurrencyLimit(1, scope="customer")], seconds: float = 0.005
) -> None:
    """One at a time per customer."""
    with noted(f"customer={customer}"):
        await asyncio.sleep(seconds)


@app.task(retry=STUBBORN)
def visit_in_thread(
    customer: Annotated[int, ConcurrencyLimit(1, scope="customer")], seconds: float = 0.005
) -> None:
    """The same keys, from threads."""
    with noted(f"customer={customer}"):
        time.sleep(seconds)


@app.task(retry=STUBBORN, max_concurrent=3)
async def ship(seconds: float = 0.005) -> None:
    """Three at a time over all workers."""
    with noted("ship"):
        await asyncio.sleep(seconds)


@app.task(retry=STUBBORN, limits=[ConcurrencyLimit(4, scope="dock")])
async def load(
    customer: Annotated[int, ConcurrencyLimit(1, scope="customer")], seconds: float = 0.005
) -> None:
    """Two keys at once."""
    with noted(f"customer={customer}"), noted("dock"):
        await asyncio.sleep(seconds)


@app.task(retry=STUBBORN)
async def hang_once(customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> int:
    """The first attempt never ends by itself."""
    attempt = current_job().attempt
    note("start", f"customer={customer}")
    try:
        while attempt == 1:
            await asyncio.sleep(0.02)
            note("step", f"customer={customer}")
    except asyncio.CancelledError:
        note("cancelled", f"customer={customer}")
        raise
    note("end", f"customer={customer}")
    return attempt


@app.task
async def ping() -> None:
    """Does nothing but say when."""
    note("start", "ping")
    note("end", "ping")
