"""How a limit learns what a pretend service bears: `python -m bench.adapt [--svg FILE]`.

The service bears 8 calls at once, later 20; it slows down before that and refuses what is beyond. Three ways to call
it, each with a real worker on a store in memory: a limit that adapts, a fixed one of 50 with retries, a fixed one of 8.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headgate import Adapt, App, ConcurrencyLimit, Retry, Throttled

CALLS, CHANGE = 3000, 1500
BEFORE, AFTER, FIRST = 8, 20, 50
CALL = 0.02


class Refused(Exception):
    """429"""


@dataclass
class Service:
    """Counts its calls; `numbers` is the limit in force at each, as far as it is known."""

    served: int = 0
    running: int = 0
    number: int = FIRST
    numbers: list[int] = field(default_factory=list[int])
    refused: list[bool] = field(default_factory=list[bool])

    @property
    def bears(self) -> int:
        """How many calls at once it bears now."""
        return BEFORE if self.served < CHANGE else AFTER

    async def call(self) -> None:
        self.numbers.append(self.number)
        self.refused.append(self.running >= self.bears)
        if self.refused[-1]:
            raise Refused
        self.running += 1
        load = self.running / self.bears
        await asyncio.sleep(CALL * (1 + max(0.0, load - 0.7)))
        self.running -= 1
        self.served += 1

    def share_refused(self, first: int, last: int) -> float:
        """Of the calls in a range, how many it refused."""
        part = self.refused[first:last]
        return sum(part) / len(part) if part else 0.0


async def run(limit: ConcurrencyLimit, *, throttled: bool) -> Service:
    """All calls through one limit. Without `throttled` a refusal is an error that is retried soon."""
    service, app = Service(), App("memory://")

    @app.task(limits=[limit], retry=Retry(attempts=1000, delay=0.05, backoff=1))
    async def call() -> None:
        try:
            await service.call()
        except Refused as error:
            raise (Throttled(0.05, limit="service") if throttled else error) from None

    async with app:
        await app.enqueue_many(call.job() for _ in range(CALLS))
        async with app.worker(concurrency=200):
            while service.served < CALLS:
                (whole,) = (await app.limits("service"))[:1]
                service.number = whole.max or 0
                await asyncio.sleep(0.01)
    return service


def table(rows: Sequence[tuple[str, Service]]) -> str:
    """What came of each way."""
    lines = [f"{'':<32} {'after 200 jobs':>14} {'refused from then on':>21} {'after the change':>17}"]
    for name, service in rows:
        settled, change, late = (call_of(service, job) for job in (200, CHANGE, CHANGE + 200))
        lines.append(
            f"{name:<32} {service.numbers[settled]:>14} {service.share_refused(settled, change):>21.1%} "
            f"{service.share_refused(late, len(service.refused)):>17.1%}"
        )
    return "\n".join(lines)


def call_of(service: Service, job: int) -> int:
    """The number of the call with which so many jobs had been served."""
    for at, refused in enumerate(service.refused):
        job -= not refused
        if job <= 0:
            return at
    return len(service.refused) - 1


def picture(service: Service) -> str:
    """The number in force, call by call, over what the service bears."""
    wide, high, left, low = 720, 260, 46, 30
    calls = len(service.numbers)
    change = call_of(service, CHANGE)

    def x(at: float) -> float:
        return round(left + at / calls * (wide - left - 10), 1)

    def y(number: float) -> float:
        return round(high - low - number / FIRST * (high - low - 12), 1)

    curve = " ".join(f"{x(at)},{y(number)}" for at, number in enumerate(service.numbers))
    bears = f"{x(0)},{y(BEFORE)} {x(change)},{y(BEFORE)} {x(change)},{y(AFTER)} {x(calls)},{y(AFTER)}"
    marks = "".join(
        f'<text x="{left - 8}" y="{y(n) + 4}" text-anchor="end">{n}</text>'
        f'<line x1="{left}" x2="{wide - 10}" y1="{y(n)}" y2="{y(n)}" stroke="#8883" />'
        for n in (0, BEFORE, AFTER, FIRST)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
        'aria-label="The number in force follows what the service bears" '
        'font-family="sans-serif" font-size="12" fill="#777">'
        f'{marks}<polyline points="{bears}" fill="none" stroke="#999" stroke-dasharray="5 4" />'
        f'<polyline points="{curve}" fill="none" stroke="#2563eb" stroke-width="2" />'
        f'<text x="{left}" y="{high - 8}">calls</text>'
        f'<text x="{wide - 10}" y="{high - 8}" text-anchor="end">{calls:,}</text>'
        f'<text x="{x(change) + 6}" y="{y(AFTER) - 6}">what the service bears</text></svg>\n'
    )


async def three_ways() -> list[tuple[str, Service]]:
    """One after the other."""
    adapts = ConcurrencyLimit(FIRST, scope="service", adapt=Adapt())
    rows = [("adapts, beginning at 50", await run(adapts, throttled=True))]
    for name, most in (("fixed at 50, errors are retried", FIRST), ("fixed at 8", BEFORE)):
        rows.append((name, await run(ConcurrencyLimit(most, scope="service"), throttled=False)))
    return rows


def main() -> None:
    """Measure, print, and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--svg", type=Path, help="write the curve of the limit that adapts to this file")
    svg: Path | None = parser.parse_args().svg
    rows = asyncio.run(three_ways())
    print(table(rows))
    if svg is not None:
        svg.write_text(picture(rows[0][1]))


if __name__ == "__main__":
    main()
