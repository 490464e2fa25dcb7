"""The app that the demonstration's workers run: `headgate worker headgate.cli.demo.tasks:app`.

Two tasks that share a limit of one job at a time per customer; one of them also needs a slot of an API, the other is
slowed down to a rate.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import Annotated

from headgate import App, ConcurrencyLimit, RateLimit, Retry, current_job
from headgate.cli.demo.journal import Journal
from headgate.cli.demo.workload import API_SLOTS, MAIL_PERIOD, MAILS

STORE = "HEADGATE_DEMO_STORE"
JOURNAL = "HEADGATE_DEMO_JOURNAL"

app = App(os.environ.get(STORE, "memory://"))

Customer = Annotated[int, ConcurrencyLimit(1, scope="customer")]


@cache
def journal() -> Journal:
    """This process's journal."""
    return Journal(os.environ[JOURNAL])


@app.task(limits=[ConcurrencyLimit(API_SLOTS, scope="api")], retry=Retry(attempts=5, delay=0.5))
async def sync_orders(customer: Customer, number: int, seconds: float, fails: bool) -> None:
    """Talk to the API for a while; a few times it hangs up."""
    with journal().run(customer, number):
        await asyncio.sleep(seconds)
        if fails and current_job().attempt == 1:
            raise ConnectionError("the API hung up")


@app.task(limits=[RateLimit(MAILS, per=MAIL_PERIOD, algorithm="sliding_window", scope="mail")])
async def send_invoice(customer: Customer, number: int, seconds: float, fails: bool) -> None:
    """Send a mail."""
    with journal().run(customer, number):
        await asyncio.sleep(seconds)
