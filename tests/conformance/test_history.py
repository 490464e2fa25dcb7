"""The small history: what workers say with their heartbeats, by minute, queue and task, for a day."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import DAY, HISTORY_MOST, Done, Engine
from headgate.errors import LeaseLost
from tests.support.world import START, World

MINUTE = 60 * SECOND
FIRST = START - START % MINUTE
"""The minute in which a world begins."""


def done(minute: int, queue: str = "q", task: str = "t", **counts: int) -> Done:
    """What was done in a minute after the start of the world."""
    return Done(FIRST + minute * MINUTE, queue, task, **counts)


async def beat(world: World, *all: Done, worker: str = "w") -> None:
    """A heartbeat that says what was done."""
    if worker not in world.workers:
        await world.worker(worker, lease=10**7)
    await world.engine.heartbeat(worker, done=all, now=world.now)


async def history(world: World, since: int = FIRST, **how: Any) -> list[Done]:
    return await world.engine.history(since, now=world.now, **how)


async def test_there_is_no_history_at_first(world: World) -> None:
    assert await history(world) == []
    assert await history(world, each=True) == []
    await beat(world)
    assert await history(world) == []


async def test_a_heartbeat_is_added_to_the_history(world: World) -> None:
    numbers = {
        "started": 9, "succeeded": 4, "failed": 1, "retried": 2, "cancelled": 3, "waited": 55, "longest": 20, "ran": 77,
    }  # fmt: skip
    await beat(world, done(0, "q", "send", **numbers))
    assert await history(world, each=True) == [done(0, "q", "send", **numbers)]
    assert await history(world) == [done(0, "", "", **numbers)]


async def test_what_workers_say_of_the_same_minute_adds_up(world: World) -> None:
    await beat(world, done(0, started=1, succeeded=1, waited=10, longest=10, ran=5), worker="w1")
    await beat(world, done(0, started=2, failed=1, waited=9, longest=6, ran=7), worker="w2")
    await beat(world, done(0, started=4, retried=1, cancelled=2), done(0, started=8, longest=3), worker="w1")
    total = done(0, started=15, succeeded=1, failed=1, retried=1, cancelled=2, waited=19, longest=10, ran=12)
    assert await history(world, each=True) == [total]


async def test_many_workers_that_say_it_at_once_add_up(
    world: World, another_engine: Callable[[], Awaitable[Engine]]
) -> None:
    engines = [await another_engine() for _ in range(5)]
    for number in range(5):
        await world.worker(f"w{number}")
    await asyncio.gather(
        *(
            engine.heartbeat(
                f"w{number}", done=[done(minute, started=1) for minute in range(3)], now=world.now
            )
            for number, engine in enumerate(engines)
            for _ in range(4)
        )
    )
    assert await history(world, each=True) == [done(minute, started=20) for minute in range(3)]


async def test_numbers_may_be_large(world: World) -> None:
    large = 3_000_000_000_000
    await beat(world, done(0, started=3_000_000_000, waited=large, longest=large, ran=large))
    await beat(world, done(0, waited=large, ran=large))
    (found,) = await history(world)
    assert (found.started, found.waited, found.longest, found.ran) == (
        3_000_000_000,
        2 * large,
        large,
        2 * large,
    )


async def test_the_history_has_one_row_per_minute_queue_and_task_in_the_order_of_time(world: World) -> None:
    rows = [
        done(2, "b", "t", started=1),
        done(1, "a", "u", started=2),
        done(1, "a", "t", started=3),
        done(1, "b", "t", started=4),
        done(-3, "z", "z", started=5),
    ]
    await beat(world, *rows)
    since = FIRST - 3 * MINUTE
    found = await history(world, since, each=True)
    assert sorted(found, key=lambda row: (row.at, row.queue, row.task)) == found
    assert set(found) == set(rows)
    assert await history(world, since) == [
        done(-3, "", "", started=5), done(1, "", "", started=9), done(2, "", "", started=1)
    ]  # fmt: skip


async def test_a_row_belongs_to_the_minute_in_which_it_lies(world: World) -> None:
    await beat(
        world, Done(FIRST + 59 * SECOND, "q", "t", started=1), Done(FIRST + MINUTE, "q", "t", started=2)
    )
    await beat(world, Done(FIRST + 1, "q", "t", started=4))
    assert await history(world, each=True) == [done(0, started=5), done(1, started=2)]


async def test_history_is_found_from_a_minute_on(world: World) -> None:
    await beat(world, *(done(minute, started=1) for minute in range(5)))
    assert [row.at for row in await history(world, FIRST + 3 * MINUTE)] == [
        FIRST + 3 * MINUTE,
        FIRST + 4 * MINUTE,
    ]
    assert [row.at for row in await history(world, FIRST + 3 * MINUTE + 1)] == [FIRST + 4 * MINUTE]
    assert await history(world, FIRST + 5 * MINUTE) == []


async def test_history_is_summed_by_spans_that_begin_at_their_multiples(world: World) -> None:
    await beat(world, *(done(minute, started=1, longest=minute + 1) for minute in range(12)))
    step = 5 * MINUTE
    found = await history(world, step=step)
    assert sum(row.started for row in found) == 12
    assert [row.at % step for row in found] == [0] * len(found)
    assert found[0].at == FIRST - FIRST % step
    assert max(row.started for row in found) == 5
    assert found[-1].longest == 12
    hour = await history(world, step=60 * MINUTE, each=True)
    assert sum(row.started for row in hour) == 12
    assert all((row.queue, row.task) == ("q", "t") for row in hour)


@pytest.mark.parametrize(
    ("which", "started"),
    [
        ({}, 15),
        ({"queue": "a"}, 3),
        ({"task": "u"}, 10),
        ({"queue": "b", "task": "u"}, 8),
        ({"queue": "b", "task": "nothing"}, 0),
        ({"queue": "A"}, 0),
        ({"queue": "é=\u2028'"}, 0),
    ],
)
async def test_history_is_found_by_queue_and_task(world: World, which: dict[str, Any], started: int) -> None:
    await beat(
        world,
        done(0, "a", "t", started=1),
        done(0, "a", "u", started=2),
        done(0, "b", "t", started=4),
        done(0, "b", "u", started=8),
    )
    assert sum(row.started for row in await history(world, **which)) == started
    assert sum(row.started for row in await history(world, each=True, **which)) == started


async def test_queues_and_tasks_may_have_any_characters(world: World) -> None:
    strange = done(0, "q:1|{x}'\"\\", "é\u2028 %_*", started=1)
    await beat(world, strange, done(0, "q:1", "x", started=2))
    assert strange in await history(world, each=True)
    assert await history(world, queue=strange.queue, each=True) == [strange]


async def test_history_is_kept_for_a_day_and_swept_after_it(world: World) -> None:
    await beat(world, done(0, started=1), done(1, started=2))
    world.now = FIRST + DAY
    await world.sweep()
    assert [row.started for row in await history(world)] == [1, 2]
    world.now = FIRST + DAY + MINUTE
    await world.sweep()
    assert [row.started for row in await history(world)] == [2]
    await world.later(MINUTE / SECOND)
    assert await history(world) == []


async def test_a_long_history_is_swept_to_its_end(world: World) -> None:
    for hour in range(3):
        rows = [done(hour * 60 + minute, task, started=1) for minute in range(60) for task in "abcdefgh"]
        await beat(world, *rows)
    await world.later(3 * DAY / SECOND)
    assert await history(world) == []


async def test_a_minute_tells_a_bounded_number_of_queues_and_tasks_apart(world: World) -> None:
    many = HISTORY_MOST + 50
    await beat(world, *(done(0, f"q{number}", started=1) for number in range(many)), worker="w1")
    await beat(world, *(done(0, f"q{number}", started=1) for number in range(many, 2 * many)), worker="w2")
    await beat(world, done(0, "q0", started=5), done(1, "q0", started=1))
    rows = [row for row in await history(world, each=True) if row.at == FIRST]
    assert len(rows) <= HISTORY_MOST + 1
    assert sum(row.started for row in rows) == 2 * many + 5
    assert done(0, "q0", started=6) in rows, "a row that is there is added to"
    assert [row for row in rows if not row.queue] == [done(0, "", "", started=2 * many - HISTORY_MOST)]


async def test_a_beat_that_is_refused_adds_nothing(world: World) -> None:
    await world.worker("w", lease=5)
    world.move(6)
    with pytest.raises(LeaseLost):
        await world.engine.heartbeat("w", done=[done(0, started=1)], now=world.now)
    with pytest.raises(LeaseLost):
        await world.engine.heartbeat("unknown", done=[done(0, started=1)], now=world.now)
    assert await history(world) == []


async def test_a_beat_with_history_still_renews_the_lease_and_tells_what_to_stop(world: World) -> None:
    await world.worker("w", lease=15)
    await world.enqueue("j1")
    await world.claim()
    await world.cancel("j1")
    world.move(5)
    answer = await world.engine.heartbeat("w", done=[done(0, started=1)], now=world.now)
    assert (answer.cancelling, answer.now) == (("j1",), world.now)
    (status,) = await world.engine.workers(now=world.now)
    assert status.lease_until == world.at(20)


async def test_history_decides_nothing(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(2, "A")
    await beat(world, done(0, "default", started=1000))
    assert await world.claim() == ["j1"]
