"""Language models: requests, tokens and calls at once, exactly at what a provider allows, without a 429.

Run it: `python examples/llm_tokens.py`. A stand-in for a provider counts on its side, as a real one does, and says how
often it had to refuse and how much of what it allows was used.
"""

import asyncio
import random
import time

from headgate import App, ConcurrencyLimit, RateLimit, Throttled, current_job

REQUESTS, TOKENS, AT_ONCE, PERIOD = 120, 60_000, 10, 2.0  # a provider's minute, in two seconds

app = App("memory://")


class Bucket:
    """What the provider counts: full at first, filled at a steady pace."""

    def __init__(self, size: int) -> None:
        self.size, self.left, self.at = size, float(size), time.monotonic()

    def take(self, units: int) -> bool:
        now = time.monotonic()
        self.left = min(self.size, self.left + (now - self.at) * self.size / PERIOD)
        self.at = now
        if self.left < units:
            return False
        self.left -= units
        return True


class Provider:
    """Refuses with 429 what is beyond its limits. A call is charged for what it might use, then for what it used."""

    def __init__(self) -> None:
        self.requests, self.tokens, self.running = Bucket(REQUESTS), Bucket(TOKENS), 0
        self.refused = self.served = self.used = 0

    async def complete(self, prompt: int, most: int) -> int:
        if self.running >= AT_ONCE or not self.requests.take(1) or not self.tokens.take(prompt + most):
            self.refused += 1
            raise RuntimeError("429 Too Many Requests")
        self.running += 1
        used = prompt + random.randint(most // 4, most // 2)
        await asyncio.sleep(random.uniform(0.02, 0.06))
        self.tokens.left += prompt + most - used
        self.running -= 1
        self.served += 1
        self.used += used
        return used


provider = Provider()


@app.task(
    limits=[
        ConcurrencyLimit(AT_ONCE, scope="calls"),
        # The bursts are a little smaller than the provider's: a call reaches it some milliseconds after the start.
        RateLimit(REQUESTS, per=PERIOD, burst=REQUESTS * 9 // 10, scope="requests"),
        RateLimit(TOKENS, per=PERIOD, burst=TOKENS * 9 // 10, scope="tokens", cost="estimate"),
    ]
)
async def complete(prompt: int, most: int, estimate: int) -> int:
    try:
        used = await provider.complete(prompt, most)
    except RuntimeError as error:
        raise Throttled(
            retry_after=0.2, limit="tokens"
        ) from error  # nothing was used; try again, but not at once
    current_job().spent("tokens", used)  # the rest of the estimate is there for the next one
    return used


async def main() -> None:
    random.seed(7)
    sizes = [(random.randint(100, 400), random.choice((400, 800))) for _ in range(500)]
    async with app, app.worker(concurrency=100):
        begun = time.monotonic()
        jobs = [complete.job(prompt, most, prompt + most) for prompt, most in sizes]
        for handle in await app.enqueue_many(jobs):
            await handle.result(timeout=120)
        seconds = time.monotonic() - begun
    allowed = TOKENS + seconds * TOKENS / PERIOD  # a full bucket to begin with, and what came meanwhile
    requests = REQUESTS + seconds * REQUESTS / PERIOD
    print(f"{provider.served} calls, {provider.used:,} tokens in {seconds:.1f} s")
    print(f"refused with 429: {provider.refused}")
    print(
        f"of the tokens allowed: {provider.used / allowed:.0%}, of the requests: {provider.served / requests:.0%}"
    )


if __name__ == "__main__":
    asyncio.run(main())
