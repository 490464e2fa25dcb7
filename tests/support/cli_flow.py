"""The app on which the command line is tried with shared queues and tokens."""

from __future__ import annotations

from headgate import App, ConcurrencyLimit, RateLimit

app = App()
app.queue("ai", share_by="tenant", weights={"acme": 2})


@app.task(queue="ai", limits=[RateLimit(10, per=60, cost="estimate", scope="tokens")])
async def ask(estimate: int = 1) -> None:
    """Shared by tenants, and costs tokens."""


@app.task(
    limits=[ConcurrencyLimit(1, scope="door", when_full="replace"), RateLimit(9, per=60, max_waiting=7)]
)
async def knock() -> None:
    """Has limits that say what happens where there is no room."""
