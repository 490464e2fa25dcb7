"""kill -9 of a producer that enqueues inside its own transactions: a job is stored exactly if what else the transaction
wrote is, what it held back is let go, and nothing of the rest is in the way of others."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

import pytest

from headgate import App, ConcurrencyLimit, JobState
from tests.support.child import Child
from tests.support.postgres_server import PostgresProcess
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PRODUCE = """
from typing import Annotated
import asyncpg
from headgate import App, ConcurrencyLimit

app = App(sys.argv[1])

@app.task(name="ship")
async def ship(order: int, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None: ...

async def main():
    number = int(sys.argv[3])
    async with app:
        connection = await asyncpg.connect(sys.argv[2])
        while True:
            async with connection.transaction():
                await connection.execute("INSERT INTO orders VALUES ($1)", number)
                for part in range(2):
                    job = ship.options(id=f"{number}-{part}").job(number, number % 3)
                    await app.enqueue(job, connection=connection)
                again = ship.options(id=f"last-{number}", unique="last", on_conflict="replace", delay=3600)
                await app.enqueue(again.job(number, number % 3), connection=connection)
                say("open", number)
                if sys.argv[4] == "stay":
                    hear()
            say("committed", number)
            number += 1

asyncio.run(main())
"""

OPEN = "SELECT 1 FROM pg_locks WHERE relation = 'orders'::regclass"


@pytest.fixture
def url(process: PostgresProcess, schema: str) -> Iterator[str]:
    process.execute("CREATE TABLE orders (number bigint PRIMARY KEY)")
    yield process.url(quote(schema))
    process.execute("DROP TABLE orders")


class Shop:
    """The consumer's side: the same task, and the orders that it has shipped."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.shipped: list[int] = []

        @self.app.task(name="ship")
        async def ship(order: int, customer: Annotated[int, ConcurrencyLimit(1, scope="customer")]) -> None:
            self.shipped.append(order)

        self.ship = ship

    async def last(self, state: str) -> list[str]:
        """The jobs of the unique name that are in this state."""
        return [job.id for job in await self.app.jobs(state=JobState(state)) if job.id.startswith("last-")]


async def test_a_producer_that_dies_in_its_transaction_leaves_nothing(url: str, process: PostgresProcess):
    shop = Shop(url)
    async with shop.app, shop.app.worker(concurrency=4), asyncio.timeout(60):
        await shop.ship.options(id="last-0", unique="last", delay=3600).enqueue(0, 0)
        with Child(PRODUCE, url, process.dsn, 1, "stay") as producer:
            assert await asyncio.to_thread(producer.hear) == ["open", 1]
            await (await shop.ship.enqueue(100, 1)).result(timeout=10)  # a key of the open transaction
            producer.kill()
        await (await shop.ship.enqueue(101, 1)).result(timeout=10)
        assert await shop.last("scheduled") == ["last-0"], "what the transaction had replaced"
        newer = shop.ship.options(id="last-2", unique="last", on_conflict="replace", delay=3600)
        assert (await newer.enqueue(2, 2)).id == "last-2"
        assert await shop.last("cancelled") == ["last-0"]
        assert await shop.last("scheduled") == ["last-2"]
        assert shop.shipped == [100, 101]
        assert process.execute("SELECT count(*) FROM orders") == [(0,)]
        assert (await shop.app.audit()).ok


async def test_a_job_is_stored_exactly_if_its_transaction_is_whenever_the_producer_dies(
    url: str, process: PostgresProcess
):
    dice, shop, committed, number = random.Random(3), Shop(url), set[int](), 1
    async with shop.app, shop.app.worker(concurrency=4), asyncio.timeout(100):
        for _ in range(12):
            with Child(PRODUCE, url, process.dsn, number, "go on") as producer:
                for _ in range(dice.randrange(2, 12)):  # it dies somewhere in the middle of a step
                    said, number = await asyncio.to_thread(producer.hear)
                    if said == "committed":
                        committed.add(number)
                producer.kill()
            number += 2
        await until(lambda: not process.execute(OPEN), "the server to end what the dead have left open")
        orders = {order for (order,) in process.execute("SELECT number FROM orders")}
        assert orders >= committed
        await until(lambda: len(shop.shipped) >= 2 * len(orders), "all parts of all orders")
        assert Counter(shop.shipped) == dict.fromkeys(orders, 2)
        assert await shop.last("scheduled") == [f"last-{max(orders)}"]
        assert set(await shop.last("cancelled")) == {f"last-{order}" for order in orders - {max(orders)}}
        assert (await shop.app.audit()).ok
