"""The app that the command line's tests use; each test points it at a store of its own."""

from __future__ import annotations

from typing import Annotated

from headgate import App, CancelJob, ConcurrencyLimit, RateLimit, Retry

app = App()


@app.task(queue="email", retry=Retry(attempts=2, delay=60, jitter=0))
async def send(to: str, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")] = 1) -> str:
    """Send something; the address `nobody` cannot be reached."""
    if to == "nobody":
        raise LookupError("no such person")
    return f"sent to {to}"


@app.task(limits=[RateLimit(1, per=3600, scope="api")])
async def report() -> None:
    """At most one an hour."""


@app.task
async def fail(why: str = "it is broken") -> None:
    """Never works; without a reason it is given up."""
    if not why:
        raise CancelJob
    raise ValueError(why)


def make() -> App:
    """A factory."""
    return app


not_an_app = 42
