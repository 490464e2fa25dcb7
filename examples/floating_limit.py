"""A limit whose number is computed while jobs run: as many at once as the other side says it can take."""

import asyncio

from headgate import App, FloatingLimit

app = App("memory://")
answers = [2, 5]
running = 0
most = {"default": 0}


@app.floating_limit("gpu", default=1, every=1)
async def ask_capacity(limit: object) -> int:
    """Asked every second, on one of the workers, while jobs hold the limit or wait for it."""
    capacity = answers.pop(0) if len(answers) > 1 else answers[0]
    most.setdefault(f"a capacity of {capacity}", 0)
    return capacity


@app.task(limits=[FloatingLimit("gpu")])
async def infer(number: int) -> None:
    global running
    running += 1
    now = list(most)[-1]
    most[now] = max(most[now], running)
    await asyncio.sleep(0.1)
    running -= 1


async def main() -> None:
    async with app, app.worker(concurrency=20):
        for job in await app.enqueue_many(infer.job(n) for n in range(60)):
            await job.result(timeout=20)
    for name, number in most.items():
        print(f"with {name}: at most {number} at once")


if __name__ == "__main__":
    asyncio.run(main())
