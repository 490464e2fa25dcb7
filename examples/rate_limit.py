"""Five mails a second per account, never more in any second; big mails cost more. An operator changes it as it runs."""

import asyncio
import time
from typing import Annotated

from headgate import App, RateLimit

app = App("memory://")
began = time.monotonic()

PerAccount = RateLimit(5, per=1, algorithm="sliding_window", cost="size", scope="mail")


@app.task
async def send(to: str, account: Annotated[str, PerAccount], size: int = 1) -> float:
    return time.monotonic() - began


async def main() -> None:
    async with app, app.worker():
        jobs = [await send.enqueue(f"friend{n}@example.com", account="ada") for n in range(8)]
        jobs.append(await send.enqueue("press@example.com", account="ada", size=3))
        times = [await job.result(timeout=10) for job in jobs]
        print("started after", ", ".join(f"{at:.1f} s" for at in times))

        await app.set_limit("mail=ada", 100, by="ops", why="a campaign that was agreed on")
        more = [await send.enqueue(f"customer{n}@example.com", account="ada") for n in range(20)]
        before = time.monotonic()
        for job in more:
            await job.result(timeout=10)
        print(f"20 more within {time.monotonic() - before:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
