"""The clock of the server jumps by hours while workers run: limits hold, nothing is lost, and work goes on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import pytest

from headgate import App, ConcurrencyLimit, Retry
from tests.support import postgres_server, preloaded
from tests.support.postgres_server import PostgresProcess
from tests.support.redis_servers import RedisProcess, binary
from tests.support.server_clock import ServerClock

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not preloaded.available(), reason="needs Linux and a C compiler"),
]

KINDS = [kind for kind in ("valkey", "redis6", "redis7") if binary(kind)]
if postgres_server.available():
    KINDS.append("postgres")
HOUR = 3600


class Store(NamedTuple):
    """A server of the test's own, and its clock."""

    url: str
    clock: ServerClock


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    clock = ServerClock()
    if request.param == "postgres":
        server = PostgresProcess("fsync=off", environment=clock.environment)
        server.start()
        url = server.url()
    else:
        server = RedisProcess(str(binary(request.param)), "--save", "", environment=clock.environment)
        url = server.url
    yield Store(url, clock)
    server.stop()
    clock.close()


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR], ids=["forward", "backward"])
async def test_limits_hold_and_work_goes_on_when_the_clock_jumps(store: Store, jump: int):
    app = App(store.url)
    live, most = Counter[int](), Counter[int]()
    ended = asyncio.Queue[int]()

    @app.task(retry=Retry(attempts=20, delay=0.01))
    async def visit(number: int, customer: Annotated[int, ConcurrencyLimit(1)]) -> int:
        live[customer] += 1
        most[customer] = max(most[customer], live[customer])
        try:
            await asyncio.sleep(0.05)  # it works
        finally:
            live[customer] -= 1
        ended.put_nowait(number)
        return number

    async with app, asyncio.timeout(60):
        async with app.worker(concurrency=6, lease=2), app.worker(concurrency=6, lease=2):
            for shift in (jump, 0):
                handles = await app.enqueue_many([visit.job(number, number % 4) for number in range(60)])
                for _ in range(20):
                    await ended.get()
                store.clock.jump(shift)
                assert [await handle.result(timeout=30) for handle in handles] == list(range(60))
        assert most == dict.fromkeys(range(4), 1)
        assert (await app.audit()).ok


async def test_a_job_is_due_when_the_clock_of_the_server_says_so(store: Store):
    app = App(store.url)

    @app.task
    async def ping() -> None:
        pass

    async with app, app.worker(concurrency=2):
        handle = await ping.options(delay=HOUR).enqueue()
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.3)
        store.clock.jump(HOUR)
        await handle.result(timeout=20)
        started = (await handle.info()).started_at
        assert started is not None
        assert started.timestamp() > time.time() + HOUR / 2, "by the clock of the server"
