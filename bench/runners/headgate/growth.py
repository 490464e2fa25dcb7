"""What each verb costs in stores of several sizes, and whether a store is small again after a day of ever new keys.

Verbs are measured on the engine: what is asked is whether a step grows with what the store holds. Each of the jobs that
fill it waits on a key of its own, so that there are as many keys as jobs.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from bench.figures import Figures
from bench.runners.headgate.sizes import longest_script, records
from headgate.clock import SECOND
from headgate.engine.contract import Engine, Filter, Limit, Override, Settings, Succeeded, Worker
from headgate.engine.open import make_engine
from headgate.job import NewJob
from headgate.keys import Key, Use

BATCH = 500
EACH = 20
"""Jobs that one call changes or returns."""
NS_PER_MS = 1e6
LIMITS = (
    Limit("grown", "concurrency", 0),
    Limit("own", "concurrency", 1),
    Limit("side", "concurrency", 1),
    Limit("float", "floating", 1),
)


def _jobs(prefix: str, limit: str, first: int, number: int) -> list[NewJob]:
    """Jobs that need one key each."""
    return [
        NewJob(f"{prefix}{n}", "t", uses=(Use(Key(limit, str(n)).ident),))
        for n in range(first, first + number)
    ]


async def growth(scratch: Path, url: str, sizes: list[int], samples: int) -> Figures:
    """Every verb at every size, in milliseconds; the store grows from one size to the next."""
    engine = make_engine(url, Settings())
    await engine.open()
    await engine.declare(LIMITS)
    await engine.register(Worker("w", frozenset({"t"}), None, 86_400 * SECOND, concurrency=1000))
    probe, filled, steps = _Probe(engine), 0, dict[int, dict[str, list[float]]]()
    await engine.enqueue(
        _jobs("first", "grown", -EACH, EACH)
    )  # so that pages are full in an empty store, too
    await probe.measure(2)  # the first calls prepare statements and scripts
    for size in sorted(sizes):
        while filled < size:
            await engine.enqueue(_jobs("g", "grown", filled, min(BATCH, size - filled)))
            filled += min(BATCH, size - filled)
        await _sweep(engine)  # what the jobs that fill it have left to be done is no cost of the verbs
        longest_script(url)  # filling does not count
        steps[size] = await probe.measure(samples)
    script = longest_script(url)
    await engine.close()
    return _summary(steps) | {"script": script, "settings": f"{EACH} jobs a call"}


class _Probe:
    """Calls each verb and keeps the time; leaves as many jobs waiting as it found."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.numbers = count(1)
        self.first = 0

    async def measure(self, samples: int) -> dict[str, list[float]]:
        taken: dict[str, list[float]] = {}
        for _ in range(samples):
            for name, call in self._round().items():
                start = time.perf_counter_ns()
                await call()
                taken.setdefault(name, []).append((time.perf_counter_ns() - start) / NS_PER_MS)
        return taken

    def _round(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        """The verbs in an order in which each finds its work."""
        engine, number = self.engine, next(self.numbers)
        self.first += EACH
        jobs, idle = _jobs("p", "own", self.first, EACH), _jobs("c", "own", -self.first, EACH)
        key = Key("float", "1").ident
        return {
            "enqueue": lambda: engine.enqueue(jobs),
            "exchange": self._exchange,
            "cancel": lambda: self._cancel(idle),
            "set_limit": lambda: engine.override(Override("grown", 0, at=number)),
            "declare": lambda: engine.declare([Limit("side", "concurrency", 1 + number % 2)]),
            "compute": lambda: engine.compute(key, 1 + number % 2),
            "sweep": engine.sweep,
            "limits page": lambda: engine.limits("grown", limit=EACH),
            "jobs page": lambda: engine.find(Filter(), limit=EACH),
            "states": lambda: engine.states([job.id for job in jobs]),
            "totals": lambda: engine.totals(most=EACH),
            "keys": lambda: engine.keys([job.uses[0].key for job in jobs], holders=EACH, waiters=EACH),
            "history": lambda: engine.history(0),
            "explain": lambda: engine.explain(f"first{-EACH}"),
        }

    async def _exchange(self) -> None:
        claimed = await self.engine.exchange("w", [], EACH)
        await self.engine.exchange("w", [Succeeded(one.job, one.number) for one in claimed.attempts], 0)

    async def _cancel(self, jobs: list[NewJob]) -> None:
        await self.engine.enqueue(jobs)
        await self.engine.cancel([job.id for job in jobs])


def _summary(steps: dict[int, dict[str, list[float]]]) -> Figures:
    """The largest size to the smallest by the medians of each verb, and the longest single step."""
    small, large = min(steps), max(steps)
    medians = {
        size: {verb: statistics.median(taken) for verb, taken in verbs.items()}
        for size, verbs in steps.items()
    }
    ratios = {verb: medians[large][verb] / medians[small][verb] for verb in medians[small]}
    longest = {verb: max(max(verbs[verb]) for verbs in steps.values()) for verb in ratios}
    slowest, worst = max(longest, key=longest.__getitem__), max(ratios, key=ratios.__getitem__)
    return {
        "ratio": ratios[worst],
        "worst": worst,
        "longest": longest[slowest],
        "slowest": slowest,
        "ratios": ratios,
        "longest_by_verb": longest,
        "medians": {str(size): verbs for size, verbs in medians.items()},
    }


class _Clock:
    """The store's time, moved by the measurement."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


async def day(scratch: Path, url: str, hours: int, jobs: int) -> Figures:
    """Hours of traffic, `jobs` a minute, every one of them over new keys: what the store keeps in the end, to what it
    kept after the first hour was swept away."""
    clock = _Clock()
    hour = 3600 * SECOND
    settings = Settings(keep_succeeded=hour, keep_failed=hour, keep_cancelled=hour)
    engine = make_engine(url, settings, clock)
    await engine.open()
    await engine.declare([Limit("own", "concurrency", 1), Limit("rate", "rate", 10, 60 * SECOND)])
    numbers = count()

    async def work(minutes: int) -> None:
        await engine.register(Worker("w", frozenset({"t"}), None, 365 * 24 * hour, concurrency=1000))
        for _ in range(minutes):
            new = [next(numbers) for _ in range(jobs)]
            await engine.enqueue([_traveller(n) for n in new])
            claimed = await engine.exchange("w", [], jobs)
            await engine.exchange("w", [Succeeded(one.job, one.number) for one in claimed.attempts], 0)
            clock.now += 60 * SECOND
            await _sweep(engine)
        clock.now += 2 * hour
        await _sweep(engine)

    await work(60)
    before = records(url)
    await work(60 * (hours - 1))
    after = records(url)
    await engine.close()
    return {
        "records": after / max(before, 1),
        "before": before,
        "after": after,
        "jobs": next(numbers),
        "settings": "retention of an hour",
    }


def _traveller(n: int) -> NewJob:
    uses = (Use(Key("own", str(n)).ident), Use(Key("rate", str(n), rate=True).ident))
    return NewJob(f"d{n}", "t", uses=uses)


async def _sweep(engine: Engine) -> None:
    while (await engine.sweep()).more:
        pass
