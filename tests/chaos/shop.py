"""The app of a chaos run: a task for every kind of limit. Its jobs note when they start and end, and what they hold."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

from headgate import App, ConcurrencyLimit, FailJob, FloatingLimit, RateLimit, Retry, current_job
from tests.chaos import rules
from tests.chaos.notes import note, now, wall

SHARED = os.environ.get("CHAOS_SHARED", "1") == "1"
"""Whether limits may span tenants; not where the store is split into partitions."""

app = App(
    os.environ["HEADGATE_URL"],
    retention={"succeeded": 3600, "failed": 3600, "cancelled": 3600},
    reservation_ttl=3,
    busy_timeout=5,
)

_losses: dict[str, Any] = {"losses": 1000} if "losses" in inspect.signature(Retry).parameters else {}
STUBBORN = Retry(attempts=10_000, delay=0.05, backoff=1, **_losses)


class _Fences(logging.Handler):
    """A worker that loses its lease says so in its log; from then on its attempts are not its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if "lost its lease" in record.getMessage():
            note("fenced", why=record.getMessage())


logging.getLogger("headgate.worker").addHandler(_Fences())


@contextmanager
def noted(*keys: str) -> Generator[None]:
    """A start and an end, however it ends."""
    job = current_job()
    claimed = now() - max(0, wall() - int(job.started_at.timestamp() * 1e6) * 1000)
    where = {"job": job.id, "attempt": job.attempt}
    note("start", **where, task=job.task, queue=job.queue, keys=keys, claimed=claimed)
    how = "ok"
    try:
        yield
    except asyncio.CancelledError:
        how = "cancelled"
        raise
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        note("end", **where, how=how)


async def _work(seconds: float, *keys: str) -> None:
    with noted(*keys):
        await asyncio.sleep(seconds)


def _capped(most: int) -> dict[str, Any]:
    return {"max_concurrent": most} if SHARED else {}


@app.task(retry=STUBBORN)
async def visit(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """One at a time per customer."""
    await _work(seconds, f"customer={customer}")


@app.task(retry=STUBBORN)
def visit_in_thread(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """The same keys, from threads."""
    with noted(f"customer={customer}"):
        time.sleep(seconds)


@app.task(retry=STUBBORN)
async def load(
    seconds: float,
    customer: Annotated[int, ConcurrencyLimit(1, scope="customer")],
    dock: Annotated[int, ConcurrencyLimit(2, scope="dock")],
) -> None:
    """Two keys at once."""
    await _work(seconds, f"customer={customer}", f"dock={dock}")


@app.task(retry=STUBBORN, **_capped(rules.MAXIMA["task:ship"]))
async def ship(seconds: float) -> None:
    """A cap on a task."""
    await _work(seconds, *(["task:ship"] if SHARED else []))


if SHARED:
    app.queue("bulk", max_concurrent=rules.MAXIMA["queue:bulk"])


@app.task(retry=STUBBORN, queue="bulk")
async def print_label(seconds: float) -> None:
    """A cap on a queue, which operators pause."""
    await _work(seconds, *(["queue:bulk"] if SHARED else []))


@app.task(retry=STUBBORN)
async def call(
    seconds: float,
    api: Annotated[
        int,
        RateLimit(
            rules.BUCKETS["api"].most,
            per=rules.BUCKETS["api"].per,
            burst=rules.BUCKETS["api"].burst,
            scope="api",
        ),
    ],
) -> None:
    """A token bucket."""
    await _work(seconds, f"api={api}")


@app.task(retry=STUBBORN)
async def post(
    seconds: float,
    account: Annotated[
        int,
        RateLimit(
            rules.WINDOWS["account"].most,
            per=rules.WINDOWS["account"].per,
            algorithm="sliding_window",
            scope="account",
        ),
    ],
) -> None:
    """A sliding window."""
    await _work(seconds, f"account={account}")


@app.floating_limit("model", default=1, every=1)
async def capacity(limit: Any) -> int:
    """From 1 to the largest, and back."""
    return 1 + int(time.clock_gettime(time.CLOCK_MONOTONIC)) % rules.MAXIMA["model"]


@app.task(retry=STUBBORN, limits=[FloatingLimit("model", "model")])
async def think(seconds: float, model: int) -> None:
    """A floating limit."""
    await _work(seconds, f"model={model}")


@app.task(retry=STUBBORN)
async def serve(seconds: float, plan: Annotated[int, ConcurrencyLimit(2, scope="plan")]) -> None:
    """A limit of each tenant's own."""
    await _work(seconds, f"plan@{current_job().tenant}={plan}")


@app.task(retry=STUBBORN, limits=[ConcurrencyLimit(3, scope="gateway", shared=True)] if SHARED else [])
async def send(seconds: float) -> None:
    """A limit that all tenants share."""
    await _work(seconds, *(["gateway"] if SHARED else []))


@app.task(retry=STUBBORN)
async def adjust(seconds: float, adjusted: Annotated[int, ConcurrencyLimit(2, scope="adjusted")]) -> None:
    """A limit that operators change."""
    await _work(seconds, f"adjusted={adjusted}")


@app.task(retry=STUBBORN)
async def queue_up(seconds: float, line: Annotated[int, ConcurrencyLimit(1, scope="line")]) -> None:
    """In the order in which they came."""
    await _work(seconds, f"line={line}")


@app.task(retry=STUBBORN)
async def only_one(seconds: float, unique: str) -> None:
    """One unfinished job per unique key."""
    await _work(seconds, f"unique={unique}")


@app.task(retry=Retry(attempts=10_000, delay=0.02, backoff=1.5, max_delay=0.5, **_losses))
async def stumble(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """Fails until its third try."""
    with noted(f"customer={customer}"):
        await asyncio.sleep(seconds)
        if current_job().tries < 3:
            raise OSError("not yet")


@app.task(retry=STUBBORN)
async def fail(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """Fails for good."""
    with noted(f"customer={customer}"):
        await asyncio.sleep(seconds)
        raise FailJob("as it was told")


@app.task(retry=STUBBORN, retention=1)
async def forget(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """Is kept for a second only."""
    await _work(seconds, f"customer={customer}")


@app.task(retry=STUBBORN)
async def crash(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """Takes its process with it, the first time."""
    with noted(f"customer={customer}"):
        await asyncio.sleep(seconds)
        if current_job().attempt == 1:
            note("killed", by="itself")
            os._exit(7)


@app.task(retry=STUBBORN, every=1)
async def tick() -> None:
    """Once a second, however many workers there are."""
    await _work(0.001, "tick")
