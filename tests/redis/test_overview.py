"""Looking at a busy store: what is too much for one script is read in slices, and partitions are put together."""

from __future__ import annotations

from headgate.clock import SECOND
from headgate.engine.contract import HISTORY_MINUTE, HISTORY_MOST, Done, Limit, Override, Worker
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.partitions import home
from headgate.engine.redis.standing import AT_ONCE
from headgate.job import JobState, NewJob
from headgate.keys import Key, Use
from tests.redis.conftest import OpenEngine, StartServer
from tests.support.world import START

LOOKS = 250
"""Keys, or rows of the history, that a script looks at (tightest.lua, history.lua)."""
HOLDERS = 500
"""Holders that a script reads at once (reading.lua)."""


def on(key: Key, *ids: str, **given: object) -> list[NewJob]:
    """A job of each id that needs a key."""
    return [NewJob(id, "t", tenant=key.tenant, uses=(Use(key.ident),), **given) for id in ids]  # pyright: ignore[reportArgumentType]


async def test_very_many_holders_of_a_key_are_read_in_slices(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    key = Key("A")
    await engine.declare([Limit("A", "concurrency", 2 * HOLDERS)], now=START)
    ids = [f"j{n:04}" for n in range(2 * HOLDERS)]
    await engine.enqueue(on(key, *ids, "late"), now=START)
    await engine.register(Worker("w", frozenset({"t"}), concurrency=len(ids), lease=10**15), now=START)
    for second in range(20):
        await engine.exchange("w", [], 50, now=START + second * SECOND)
    (status,) = await engine.keys([key.ident], holders=120, waiters=5, now=START)
    assert status is not None
    assert (status.free, status.status.held, status.status.waiting) == (0, len(ids), 1)
    assert [holder.job for holder in status.holders] == ids[:120], "longest first, then by arrival"
    assert [holder.since - START for holder in status.holders[::50]] == [0, SECOND, 2 * SECOND]
    assert {(holder.worker, holder.task, holder.reserved) for holder in status.holders} == {("w", "t", False)}
    assert [waiter.job for waiter in status.waiters] == ["late"]
    facts = await engine.explain("late", now=START)
    assert facts is not None
    assert [holder.job for holder in facts.holders] == ids[:10]


async def test_very_many_waiters_of_a_key_are_read_in_slices_across_queues(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    key = Key("A")
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    ids = [f"j{n:03}" for n in range(2 * AT_ONCE + 50)]
    for number, id in enumerate(reversed(ids)):
        due = START - number * SECOND
        await engine.enqueue(on(key, id, queue=f"q{number % 3}", at=due), now=START)
    await engine.enqueue(on(key, "first", priority=1), now=START)
    (status,) = await engine.keys([key.ident], waiters=1000, now=START)
    assert status is not None
    assert [waiter.job for waiter in status.waiters] == ["first", *ids]
    (status,) = await engine.keys([key.ident], waiters=AT_ONCE + 1, now=START)
    assert status is not None
    assert [waiter.job for waiter in status.waiters] == ["first", *ids[:AT_ONCE]]


async def test_more_keys_than_a_script_takes_are_shown_in_slices(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    keys = [Key("A", str(n)) for n in range(3 * AT_ONCE)]
    await engine.enqueue([job for n, key in enumerate(keys) for job in on(key, f"j{n}")], now=START)
    found = await engine.keys([key.ident for key in keys], holders=3, waiters=1, now=START)
    assert [[waiter.job for waiter in status.waiters] for status in found if status] == [
        [f"j{n}"] for n in range(len(keys))
    ]


async def test_the_tightest_of_more_keys_than_a_script_looks_at(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    keys = [Key("A", f"{n:04}") for n in range(LOOKS + 200)]
    jobs = [job for n, key in enumerate(keys) for job in on(key, f"j{n}")]
    more = [job for n in range(5) for key in (keys[-1], keys[7]) for job in on(key, f"{key.value}-{n}")]
    await engine.enqueue([*jobs, *more, *on(keys[-1], "most")], now=START)
    rows = [(row.key, row.waiting) for row in await engine.tightest(limit=4, now=START)]
    assert rows == [(keys[-1].text, 7), (keys[7].text, 6), (keys[0].text, 1), (keys[1].text, 1)]


async def test_a_long_history_is_read_in_slices(start_server: StartServer, open_engine: OpenEngine) -> None:
    engine = await open_engine(start_server().url)
    await engine.register(Worker("w", frozenset({"t"}), lease=10**15), now=START)
    begin = START - START % HISTORY_MINUTE
    minutes = 2 * LOOKS // HISTORY_MOST + 2
    for minute in range(minutes):
        at = begin + minute * HISTORY_MINUTE
        done = [Done(at, f"q{n:03}", "t", started=n, longest=n) for n in range(HISTORY_MOST + 50)]
        await engine.heartbeat("w", done=done, now=START)
    total = sum(range(HISTORY_MOST + 50))
    rows = await engine.history(begin)
    assert [row.at for row in rows] == [begin + minute * HISTORY_MINUTE for minute in range(minutes)]
    assert {(row.started, row.longest) for row in rows} == {(total, HISTORY_MOST + 49)}
    each = await engine.history(begin, each=True)
    assert len(each) == minutes * (HISTORY_MOST + 1)
    assert each[0].queue == "", "what is beyond the pairs that a minute tells apart"
    (one,) = await engine.history(begin, step=60 * HISTORY_MINUTE * 24, queue="q007")
    assert one.started == 7 * minutes


async def test_the_oldest_ready_job_of_each_of_very_many_lines(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    queues = [f"q{n:03}" for n in range(60)]
    jobs = [
        NewJob(
            f"{queue}-{priority}", "t", queue=queue, priority=priority, at=START - number * SECOND - priority
        )
        for number, queue in enumerate(queues)
        for priority in range(10)
    ]
    await engine.enqueue(jobs, now=START)
    await engine.pause("idle")
    found = await engine.queues(most=10)
    assert [(row.name, row.ready, row.exact) for row in found] == [
        ("idle", 0, True),
        *((queue, 10, True) for queue in queues),
    ]
    assert [row.oldest for row in found[1:]] == [START - number * SECOND - 9 for number in range(60)]


async def test_a_page_of_limits_whose_keys_belong_to_many_tenants(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await open_engine(start_server().url)
    await engine.declare([Limit("A", "concurrency", 0)], now=START)
    keys = [Key("A", f"{n % 7:03}", f"t{n}") for n in range(LOOKS + 100)]
    await engine.enqueue([job for n, key in enumerate(keys) for job in on(key, f"j{n}")], now=START)
    await engine.override(Override("A", 0, value="003", tenant="t2"), now=START)
    everything = await engine.limits("A", now=START)
    assert len(everything) == 1 + len(keys) + 1
    place, pages = None, list[tuple[str, str, int]]()
    while page := await engine.limits("A", after=place, limit=300, now=START):
        pages += [(row.key, row.tenant, row.waiting) for row in page]
        place = (page[-1].name, page[-1].key, page[-1].tenant)
    shown = [(row.key, row.tenant, row.waiting) for row in everything]
    assert pages[1:] == shown[1:]


def tenants() -> list[str]:
    """One tenant of each of two partitions."""
    return [next(f"t{n}" for n in range(100) if home(f"t{n}", 2) == wanted) for wanted in range(2)]


async def split(start_server: StartServer, open_engine: OpenEngine) -> RedisEngine:
    """Two partitions, with a worker and a waited-for key in each."""
    engine = await open_engine(f"{start_server().url}?partitions=2")
    await engine.declare([Limit("A", "concurrency", 1)], now=START)
    for part in engine.parts():
        await part.register(Worker("w", frozenset({"t"}), lease=10**15), now=START)
    return engine


async def test_partitions_are_looked_at_as_one_store(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await split(start_server, open_engine)
    first, second = (Key("A", tenant=tenant) for tenant in tenants())
    await engine.enqueue([*on(first, "a1", "a2"), *on(second, "b1", "b2", "b3")], now=START)
    for part in engine.parts():
        assert len((await part.exchange("w", [], 5, now=START)).attempts) == 1
    totals = await engine.totals(most=1)
    assert (totals.counts[JobState.RUNNING], totals.counts[JobState.WAITING]) == (2, 3)
    assert set(totals.counts) == {*JobState}
    assert not totals.partial
    tightest = await engine.tightest(limit=1, now=START)
    assert [(row.tenant, row.waiting, row.held) for row in tightest] == [(second.tenant, 2, 1)]
    found = await engine.keys([second.ident, Key("none").ident, first.ident], waiters=3, now=START)
    assert [status and [waiter.job for waiter in status.waiters] for status in found] == [
        ["b2", "b3"],
        None,
        ["a2"],
    ]


async def test_the_history_of_all_partitions_is_summed(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await split(start_server, open_engine)
    begin = START - START % HISTORY_MINUTE
    for number, part in enumerate(engine.parts(), 1):
        await part.heartbeat("w", done=[Done(START, "q", "t", started=number, longest=number)], now=START)
    (row,) = await engine.history(begin, each=True)
    assert row == Done(begin, "q", "t", started=3, longest=2)
    for part in engine.parts():
        await part.sweep(now=begin + 24 * 60 * HISTORY_MINUTE)
    assert await engine.history(begin, each=True) == [row]
    for part in engine.parts():
        await part.sweep(now=begin + (24 * 60 + 1) * HISTORY_MINUTE)
    assert await engine.history(0) == []


async def test_schedules_of_a_split_store_are_paused_where_they_tick(
    start_server: StartServer, open_engine: OpenEngine
) -> None:
    engine = await split(start_server, open_engine)
    assert await engine.pause_schedule("daily")
    assert await engine.paused_schedules() == {"daily"}
    assert not await engine.tick("daily", None, START, on(Key("A", tenant=tenants()[1]), "j"), now=START)
    assert await engine.states(["j"]) == [None]
    assert await engine.resume_schedule("daily", now=START)
    assert await engine.tick("daily", START, START + 1, on(Key("A", tenant=tenants()[1]), "j"), now=START)
    assert await engine.states(["j"]) == [JobState.READY]
