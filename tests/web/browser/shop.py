"""A shop with an hour behind it: something runs, something waits, something failed. For browser tests and pictures.

The store is in memory, and its clock goes with the real one after an hour that passes in a moment.
"""

from __future__ import annotations

import asyncio
import random
from datetime import datetime, timedelta
from typing import Annotated

from headgate import App, ConcurrencyLimit, RateLimit, Retry, current_job
from headgate.clock import duration_us, from_us, now_us
from headgate.testing import Clock

MINUTES = 60
ACCOUNT = "acct_91"
TRIED = "sync-4711"
"""A job that waits and has failed twice before."""
LONG = "recalculate_discounts_for_wholesale_customers_of_a_region"
LONG_VALUE = "eu-central-1/warehouse-of-the-northern-provinces/2026-11"


class LiveClock(Clock):
    """Goes as the real one does, so far behind it until it has caught up."""

    def __init__(self, behind: float) -> None:
        super().__init__()
        self._shift = -duration_us(behind, "behind")

    def __call__(self) -> int:
        return now_us() + self._shift

    def now(self) -> datetime:
        return from_us(self())

    def catch_up(self, seconds: float) -> None:
        self._shift = min(0, self._shift + duration_us(seconds, "seconds"))


class Shop:
    """The app, and what has happened in it."""

    def __init__(self, *, minutes: int = MINUTES) -> None:
        self.clock = LiveClock(minutes * 60.0)
        self.app = App("memory://", clock=self.clock)
        self.release = asyncio.Event()
        self._minutes = minutes
        self._past = True
        self._dice = random.Random(5)
        _declare(self)
        _declare_more(self)

    async def work(self, seconds: float) -> None:
        """What a task does: in the past a moment, later until it is told to go on."""
        if self._past:
            self.clock.catch_up(seconds)
        else:
            await self.release.wait()

    async def live(self) -> None:
        """Let the hour pass, then leave the shop as the pages show it. A worker has to run what is left."""
        for minute in range(self._minutes):
            await self._minute(minute)
        self._past = False
        self.clock.catch_up(float(self._minutes * 60))
        await self._now()

    async def _minute(self, minute: int) -> None:
        app, dice = self.app, self._dice
        rush = 1 + minute / 30 + (1.5 if 38 <= minute <= 44 else 0)
        tasks = app.tasks
        jobs = [
            tasks["send_receipt"].job(f"customer{dice.randrange(900)}@example.org")
            for _ in range(int(9 * rush))
        ]
        jobs += [
            tasks["sync"].job(dice.randrange(400), account=f"acct_{dice.randrange(80, 99)}")
            for _ in range(int(6 * rush))
        ]
        jobs += [
            tasks["resize"].job(f"photo-{dice.randrange(10_000)}.jpg") for _ in range(dice.randrange(1, 4))
        ]
        if minute == 41:
            jobs += [tasks["send_receipt"].job(f"customer{n}@example.org", broken=True) for n in range(28)]
        if minute in (12, 50, 55):
            jobs += [tasks["import_feed"].job(f"feed-{minute}-{n}", broken=True) for n in range(3)]
        await app.enqueue_many(jobs)
        self.clock.catch_up(dice.uniform(0.2, 2 + rush))
        await app.run_until_idle(concurrency=8)
        self.clock.catch_up(60 - self.clock() / 1e6 % 60)

    async def _now(self) -> None:
        app, tasks = self.app, self.app.tasks
        await app.set_limit("gpu", 0, by="ada", why="driver update", until=3 * 3600)
        await app.set_limit(f"crm={ACCOUNT}", 8, by="grace", why="they allow more at night")
        sync = tasks["sync"].options(tenant=None)
        jobs = [sync.job(n, account=ACCOUNT) for n in range(40)]
        jobs += [tasks["sync"].job(42, account="acct_80") for _ in range(6)]
        jobs += [tasks["sync"].job(n, account="acct_85") for n in range(100, 105)]
        jobs += [tasks["resize"].job(f"photo-{n}.jpg") for n in range(17)]
        await app.set_share("initech", weight=0.5, by="ada", why="a crawler", until=6 * 3600)
        jobs += [
            tasks["ask_model"]
            .options(tenant=tenant, expires=3600)
            .job(f"Describe article {n} in two sentences.")
            for n, tenant in enumerate(["globex"] * 17 + ["acme"] * 6 + ["initech"] * 4 + ["umbrella"] * 3)
        ]
        jobs += [
            tasks["send_receipt"].options(delay=60 * n).job(f"late{n}@example.org") for n in range(1, 25)
        ]
        jobs += [
            tasks[LONG].options(tenant="wholesale-of-the-northern-provinces").job(LONG_VALUE)
            for _ in range(3)
        ]
        jobs += [tasks["render_report"].options(id="report-2026-11").job("2026-11")]
        await app.enqueue_many(jobs)
        await app.import_jobs([self._tried()])

    def _tried(self) -> dict[str, object]:
        now = self.clock.now()
        trace = 'Traceback (most recent call last):\n  File "crm.py", line 88, in fetch\n    await client.get(url)'
        attempts = [
            {
                "outcome": "failed",
                "started_at": now - timedelta(seconds=began),
                "ended_at": now - timedelta(seconds=ended),
                "error": f"TimeoutError: no answer from the CRM in 10 s\n{trace}",
                "worker": worker,
            }
            for began, ended, worker in ((150, 118, "web-3"), (94, 74, "web-1"))
        ]
        retry = {"attempts": 5, "delay": 12, "jitter": 0}
        args = {"customer": 4711, "account": ACCOUNT}
        return {
            "id": TRIED,
            "task": "sync",
            "args": args,
            "priority": 60,
            "attempts": attempts,
            "retry": retry,
        }


def _declare(shop: Shop) -> None:
    app = shop.app
    app.queue("email", max_concurrent=50)
    app.queue("models", share_by="tenant", weights={"acme": 2})

    @app.task(queue="email", max_concurrent=40, retry=Retry(attempts=1))
    async def send_receipt(to: str, broken: bool = False) -> str:
        await shop.work(0.03)
        if broken:
            raise ConnectionError(f"smtp.example refused the connection for {to}")
        return f"sent to {to}"

    @app.task(
        queue="crm",
        retry=Retry(attempts=5, delay=12, jitter=0),
        limits=[
            ConcurrencyLimit("account", max_concurrent=5, scope="crm"),
            RateLimit("account", limit=100, per=60, scope="crm.rate"),
        ],
    )
    async def sync(
        customer: Annotated[int, ConcurrencyLimit(1)], account: str, fails: int = 0
    ) -> dict[str, int]:
        await shop.work(0.2)
        if current_job().attempt <= fails:
            raise TimeoutError("no answer from the CRM in 10 s")
        return {"customer": customer, "rows": customer * 3}

    @app.task(queue="media", limits=[ConcurrencyLimit(4, scope="gpu")])
    async def resize(photo: str) -> None:
        await shop.work(0.1)


def _declare_more(shop: Shop) -> None:
    app = shop.app

    @app.task(queue="models", limits=[RateLimit(12, per=60, scope="tokens", key="openai", shared=True)])
    async def ask_model(prompt: str) -> str:
        return "A fine article."

    @app.task(queue="imports", retry=Retry(attempts=1))
    async def import_feed(feed: str, broken: bool = False) -> None:
        await shop.work(0.1)
        if broken:
            raise KeyError("sku")

    @app.task(queue="reports")
    async def render_report(month: str) -> None:
        current_job().progress({"done": 640, "total": 1000, "page": "customers"})
        await shop.work(0.1)

    @app.task(
        name=LONG, queue="default", limits=[ConcurrencyLimit("region", max_concurrent=1, scope="region")]
    )
    async def recalculate(region: str) -> None:
        await shop.work(0.1)

    @app.task(cron="0 2 * * *", timezone="Europe/Berlin", queue="reports")
    async def nightly_report() -> None: ...

    @app.task(every=300, queue="reports")
    async def refresh_rates() -> None: ...

    @app.task(cron="*/10 * * * *", queue="default")
    async def clean_carts() -> None: ...
