"""The app of a chaos run: a task for every kind of limit. Its jobs note when they start and end, and what they hold."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Annotated, Any

from headgate import App, ConcurrencyLimit, FailJob, FloatingLimit, RateLimit, Retry, current_job
from tests.chaos import flow, rules, wire
from tests.chaos.noted import noted, work
from tests.chaos.notes import note
from tests.chaos.rules import STUBBORN

SHARED = os.environ.get("CHAOS_SHARED", "1") == "1"
"""Whether limits may span tenants; not where the store is split into partitions."""

wire.listen()

app = App(
    os.environ["HEADGATE_URL"],
    retention={"succeeded": 3600, "failed": 3600, "cancelled": 3600},
    reservation_ttl=3,
    busy_timeout=5,
)

app.include(flow.tasks)
if SHARED:
    app.queue("letters", max_waiting=rules.MOST_WAITING["letters"], on_overflow="drop_oldest")


def _capped(most: int) -> dict[str, Any]:
    return {"max_concurrent": most} if SHARED else {}


@app.task(retry=STUBBORN)
async def visit(seconds: float, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
    """One at a time per customer."""
    await work(seconds, f"customer={customer}")


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
    await work(seconds, f"customer={customer}", f"dock={dock}")


@app.task(retry=STUBBORN, **_capped(rules.MAXIMA["task:ship"]))
async def ship(seconds: float) -> None:
    """A cap on a task."""
    await work(seconds, *(["task:ship"] if SHARED else []))


if SHARED:
    app.queue("bulk", max_concurrent=rules.MAXIMA["queue:bulk"])


@app.task(retry=STUBBORN, queue="bulk")
async def print_label(seconds: float) -> None:
    """A cap on a queue, which operators pause."""
    await work(seconds, *(["queue:bulk"] if SHARED else []))


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
    await work(seconds, f"api={api}")


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
    await work(seconds, f"account={account}")


@app.floating_limit("model", default=1, every=1)
async def capacity(limit: Any) -> int:
    """From 1 to the largest, and back."""
    return 1 + int(time.clock_gettime(time.CLOCK_MONOTONIC)) % rules.MAXIMA["model"]


@app.task(retry=STUBBORN, limits=[FloatingLimit("model", "model")])
async def think(seconds: float, model: int) -> None:
    """A floating limit."""
    await work(seconds, f"model={model}")


@app.task(retry=STUBBORN)
async def serve(seconds: float, plan: Annotated[int, ConcurrencyLimit(2, scope="plan")]) -> None:
    """A limit of each tenant's own."""
    await work(seconds, f"plan@{current_job().tenant}={plan}")


@app.task(retry=STUBBORN, limits=[ConcurrencyLimit(3, scope="gateway", shared=True)] if SHARED else [])
async def send(seconds: float) -> None:
    """A limit that all tenants share."""
    await work(seconds, *(["gateway"] if SHARED else []))


@app.task(retry=STUBBORN)
async def adjust(seconds: float, adjusted: Annotated[int, ConcurrencyLimit(2, scope="adjusted")]) -> None:
    """A limit that operators change."""
    await work(seconds, f"adjusted={adjusted}")


@app.task(retry=STUBBORN)
async def queue_up(seconds: float, line: Annotated[int, ConcurrencyLimit(1, scope="line")]) -> None:
    """In the order in which they came."""
    await work(seconds, f"line={line}")


@app.task(retry=STUBBORN)
async def only_one(seconds: float, unique: str) -> None:
    """One unfinished job per unique key."""
    await work(seconds, f"unique={unique}")


@app.task(retry=Retry(attempts=10_000, delay=0.02, backoff=1.5, max_delay=0.5, losses=1000))
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
    await work(seconds, f"customer={customer}")


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
    await work(0.001, "tick")
