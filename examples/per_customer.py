"""One job at a time per customer, three at once on the shared API: the jobs count for themselves how many run."""

import asyncio
from collections import Counter
from typing import Annotated

from headgate import App, ConcurrencyLimit

app = App("memory://")
running: Counter[str] = Counter()
most: Counter[str] = Counter()


@app.task
async def sync(
    customer: Annotated[int, ConcurrencyLimit(1, scope="customer")],
    api: ConcurrencyLimit = ConcurrencyLimit(3, scope="api"),
) -> None:
    mine = (f"customer {customer}", "api")
    for name in mine:
        running[name] += 1
        most[name] = max(most[name], running[name])
    await asyncio.sleep(0.02)
    for name in mine:
        running[name] -= 1


async def main() -> None:
    async with app, app.worker(concurrency=50):
        jobs = await app.enqueue_many(sync.job(customer) for _ in range(5) for customer in range(6))
        print(await jobs[-1].explain())
        for job in jobs:
            await job.result(timeout=10)
    per_customer = max(number for name, number in most.items() if name != "api")
    print(f"at once: {per_customer} per customer, {most['api']} on the API")


if __name__ == "__main__":
    asyncio.run(main())
