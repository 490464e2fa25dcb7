import asyncio
from typing import Annotated

from headgate import App, ConcurrencyLimit

app = App("sqlite:///jobs.db")


@app.task
async def greet(name: str, customer: Annotated[int, ConcurrencyLimit(1)]) -> str:  # one per customer
    await asyncio.sleep(0.1)
    return f"Hello {name}, customer {customer}!"


async def main() -> None:
    async with app, app.worker(concurrency=10):
        jobs = [await greet.enqueue(name, customer=42) for name in ("Ada", "Grace", "Barbara")]
        print(*[await job.result(timeout=10) for job in jobs], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
