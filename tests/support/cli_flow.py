"""The app on which the command line is tried with shared queues and tokens."""

from __future__ import annotations

from headgate import App, RateLimit

app = App()
app.queue("ai", share_by="tenant", weights={"acme": 2})


@app.task(queue="ai", limits=[RateLimit(10, per=60, cost="estimate", scope="tokens")])
async def ask(estimate: int = 1) -> None:
    """Shared by tenants, and costs tokens."""
