"""Tasks that run by themselves: every so often, or at times of the day. However many workers there are, once a tick."""

import asyncio

from headgate import App, current_job

app = App("memory://")
beats: list[str] = []
enough = asyncio.Event()


@app.task(every=1)
async def heartbeat() -> None:
    beats.append(current_job().id)
    if len(beats) == 3:
        enough.set()


@app.task(cron="0 3 * * *", timezone="Europe/Berlin")
async def clean_up() -> None:
    print("three o'clock in the morning in Berlin, in summer and in winter")


async def main() -> None:
    async with app, app.worker(name="one"), app.worker(name="two"):
        await enough.wait()
    print(f"{len(beats)} beats by two workers, {len(set(beats))} different jobs")


if __name__ == "__main__":
    asyncio.run(main())
