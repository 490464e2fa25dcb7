import asyncio
from typing import Annotated

from headgate import App, ConcurrencyLimit

app = App("sqlite:///jobs.db")


@app.task(max_concurrent=8)  # eight at once in all,
async def sync(customer: Annotated[int, ConcurrencyLimit(1)]) -> str:  # one at a time per customer
    await asyncio.sleep(0.1)
    return f"customer {customer} is in sync"


async def main() -> None:
    async with app, app.worker():
        jobs = [await sync.enqueue(number % 3) for number in range(6)]
        print(await jobs[-1].result())


if __name__ == "__main__":
    asyncio.run(main())
