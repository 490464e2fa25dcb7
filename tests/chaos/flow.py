"""The tasks of a chaos run whose limits know sizes, shares, a full house, costs that are known afterwards, and services
that say 429."""

from __future__ import annotations

import asyncio
import time

from headgate import ConcurrencyLimit, RateLimit, TaskSet, Throttled, current_job
from tests.chaos.noted import noted, work
from tests.chaos.notes import note
from tests.chaos.rules import BUCKETS, MAXIMA, MOST_WAITING, STUBBORN, WINDOWS

tasks = TaskSet()


@tasks.task(
    retry=STUBBORN,
    limits=[ConcurrencyLimit("shelf", max_concurrent=MAXIMA["shelf"], cost="size", scope="shelf")],
)
async def pack(seconds: float, shelf: int, size: int) -> None:
    """Slots with a size."""
    key = f"shelf={shelf}"
    await work(seconds, key, units={key: size})


# ── fair shares ──────────────────────────────────────────────────────────────────────────────────────────────────────

for name in ("rides", "booths"):
    tasks.queue(name, share_by="share")


@tasks.task(retry=STUBBORN, queue="rides")
async def ride(seconds: float, share: str) -> None:
    """In the ready line of a shared queue."""
    await work(seconds, share=share)


@tasks.task(retry=STUBBORN, queue="booths", limits=[ConcurrencyLimit(MAXIMA["booth"], scope="booth")])
async def booth(seconds: float, share: str) -> None:
    """In the line of one key."""
    await work(seconds, "booth", share=share)


# ── no room ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@tasks.task(
    retry=STUBBORN,
    limits=[ConcurrencyLimit("page", max_concurrent=MAXIMA["page"], scope="page", when_full="drop")],
)
async def refresh(seconds: float, page: int) -> None:
    """Is not done if it is being done."""
    await work(seconds, f"page={page}")


@tasks.task(
    retry=STUBBORN,
    limits=[ConcurrencyLimit("view", max_concurrent=MAXIMA["view"], scope="view", when_full="replace")],
)
async def view(seconds: float, view: int) -> None:
    """Only the newest waits."""
    await work(seconds, f"view={view}")


@tasks.task(
    retry=STUBBORN,
    limits=[ConcurrencyLimit("draft", max_concurrent=MAXIMA["draft"], scope="draft", when_full="cancel")],
)
async def draft(seconds: float, draft: int) -> None:
    """A newer one stops it."""
    await work(seconds, f"draft={draft}")


@tasks.task(
    retry=STUBBORN,
    limits=[
        ConcurrencyLimit("crm", max_concurrent=MAXIMA["crm"], scope="crm", max_waiting=MOST_WAITING["crm"])
    ],
)
async def sync(seconds: float, crm: int) -> None:
    """Refused beyond the backlog."""
    await work(seconds, f"crm={crm}")


@tasks.task(
    retry=STUBBORN,
    limits=[
        ConcurrencyLimit(
            "inbox",
            max_concurrent=MAXIMA["inbox"],
            scope="inbox",
            max_waiting=MOST_WAITING["inbox"],
            on_overflow="drop_oldest",
        )
    ],
)
def receive(seconds: float, inbox: int) -> None:
    """The oldest goes; in threads."""
    with noted(f"inbox={inbox}"):
        time.sleep(seconds)


@tasks.task(
    retry=STUBBORN,
    limits=[
        ConcurrencyLimit(
            "outbox",
            max_concurrent=MAXIMA["outbox"],
            scope="outbox",
            max_waiting=MOST_WAITING["outbox"],
            on_overflow="drop_newest",
        )
    ],
)
async def dispatch(seconds: float, outbox: int) -> None:
    """The newest goes."""
    await work(seconds, f"outbox={outbox}")


@tasks.task(retry=STUBBORN, queue="letters")
async def write(seconds: float) -> None:
    """In a queue that takes no more than so many."""
    await work(seconds)


@tasks.task(
    retry=STUBBORN, limits=[ConcurrencyLimit("counter", max_concurrent=MAXIMA["counter"], scope="counter")]
)
async def hurry(seconds: float, counter: int) -> None:
    """Is not started too late."""
    await work(seconds, f"counter={counter}")


# ── costs that are known afterwards, and 429 ─────────────────────────────────────────────────────────────────────────


async def _spend(name: str, seconds: float, estimate: int, truth: int, closed: float) -> None:
    with noted(name, units={name: estimate}):
        await asyncio.sleep(seconds)
        job = current_job()
        if closed and job.attempt == 1:
            raise Throttled(closed, limit=name)
        note("spent", job=job.id, attempt=job.attempt, units=truth)
        job.spent(name, truth)


@tasks.task(
    retry=STUBBORN,
    limits=[
        RateLimit(
            BUCKETS["tokens"].most,
            per=BUCKETS["tokens"].per,
            burst=BUCKETS["tokens"].burst,
            cost="estimate",
            scope="tokens",
        )
    ],
)
async def ask(seconds: float, estimate: int, truth: int, closed: float) -> None:
    """A bucket of tokens; the service may close it."""
    await _spend("tokens", seconds, estimate, truth, closed)


@tasks.task(
    retry=STUBBORN,
    limits=[
        RateLimit(
            WINDOWS["words"].most,
            per=WINDOWS["words"].per,
            algorithm="sliding_window",
            cost="estimate",
            scope="words",
        )
    ],
)
async def translate(seconds: float, estimate: int, truth: int, closed: float) -> None:
    """A window."""
    await _spend("words", seconds, estimate, truth, closed)


@tasks.task(
    retry=STUBBORN, limits=[ConcurrencyLimit("service", max_concurrent=MAXIMA["service"], scope="service")]
)
async def order(seconds: float, service: int, closed: float) -> None:
    """Slots that the service may close."""
    with noted(f"service={service}"):
        await asyncio.sleep(seconds)
        if closed and current_job().attempt == 1:
            raise Throttled(closed)


# ── unique in other ways ─────────────────────────────────────────────────────────────────────────────────────────────


@tasks.task(retry=STUBBORN)
async def index(seconds: float, version: str) -> None:
    """The last one of several counts, and it is not put off for ever."""
    job = current_job()
    put_off = (job.due - job.enqueued_at).total_seconds()
    await work(seconds, version=version, put_off=put_off)


@tasks.task(retry=STUBBORN)
async def greet(seconds: float, name: str) -> None:
    """Once in a while."""
    await work(seconds, greets=name)


@tasks.task(retry=STUBBORN, limits=[ConcurrencyLimit(MAXIMA["desk"], scope="desk")])
async def attend(seconds: float) -> None:
    """Beside slots of code that is no job."""
    await work(seconds, "desk")
