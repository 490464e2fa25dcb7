"""What pages cost follows what they show and where their counts stop, not what is stored: rows read, as the server
counts them, with 20,000 ended jobs and 20,000 that wait on 2,000 keys, most of which no page shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from headgate.engine.contract import Filter, Limit
from headgate.engine.postgres import PostgresEngine
from headgate.engine.rules.audit import audit
from headgate.job import JobState
from tests.postgres.conftest import OpenEngine
from tests.postgres.test_cost import Meter
from tests.support.postgres_server import PostgresProcess

ENDED, WAITING, KEYS = 20_000, 20_000, 2_000
MOST = 50
"""Where counts stop."""
READ = 2_000
"""Rows and index entries that a page may read: it shows up to 50 jobs or keys, each of a few rows, in 4 queues."""

STORED = """
INSERT INTO {s}.jobs (seq, id, task, queue, tenant, priority, enqueued_at, args, use_keys, use_units, retry)
SELECT n, 'j' || n, 't' || n % 20, 'q' || n % 4, '', 50, n, '{{}}', ARRAY['c0:A=' || n % {keys}], '{{1}}',
       '[3,0,1.0,0,0.0]'
FROM generate_series(1, {all}) AS n;
INSERT INTO {s}.ended (seq, state, due, attempt, tries, worker, started_at, ended_at, outcome, cancel_requested, error,
                       expires_at)
SELECT n, k.state, n, 1, 1, 'w', n, n, k.state, false, CASE WHEN k.state = 'failed' THEN 'ValueError: ' || n END,
       9000000000000000
FROM generate_series(1, {ended}) AS n
CROSS JOIN LATERAL (SELECT CASE n WHEN 77 THEN 'failed' WHEN 78 THEN 'cancelled' ELSE 'succeeded' END AS state) AS k;
INSERT INTO {s}.live (seq, task, queue, tenant, priority, due, state, use_keys, use_units, waiting_on, units, refusals,
                      unseen)
SELECT j.seq, j.task, j.queue, '', 50, j.seq, 'waiting', j.use_keys, j.use_units, j.use_keys[1], 1, 0, true
FROM {s}.jobs j WHERE j.seq > {ended};
UPDATE {s}.live SET state = 'scheduled', waiting_on = NULL, units = 0, refusals = NULL, due = 9000000000000000
WHERE seq = {ended} + 5;
INSERT INTO {s}.keys SELECT 'c0:A=' || n FROM generate_series(0, {keys} - 1) AS n;
SELECT setval('{s}.arrivals', {all});
"""


@dataclass
class Stored:
    engine: PostgresEngine
    meter: Meter


@pytest.fixture
async def stored(open_engine: OpenEngine, process: PostgresProcess, schema: str) -> Stored:
    """A store full of what no page shows."""
    engine = await open_engine()
    await engine.declare([Limit("A", "concurrency", 0)])
    meter = Meter(engine, process, schema)
    name = '"' + schema.replace('"', '""') + '"'
    # (The driver of the tests takes percent signs for its own.)
    texts = STORED.format(s=name, all=ENDED + WAITING, ended=ENDED, keys=KEYS).split(";\n")
    for text in filter(str.strip, texts):
        process.execute(text)
    meter.vacuum("jobs", "live", "ended", "keys")
    return Stored(engine, meter)


async def costs(stored: Stored, pages: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, int]:
    """Rows read by each page, on a connection that has asked it before: what planning reads is not counted."""
    found: dict[str, int] = {}
    for name, page in pages.items():
        await page()
        found[name] = (await stored.meter.cost(page))[1]
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_no_page_reads_what_it_does_not_show(stored: Stored) -> None:
    engine = stored.engine
    read = await costs(stored, {
        "totals": lambda: engine.totals(most=MOST),
        "queues": lambda: engine.queues(most=MOST),
        "keys": lambda: engine.keys([f"c0:A={n}" for n in range(20)], waiters=20),
        "limits": lambda: engine.limits("A", after=("A", "A=1", ""), limit=MOST),
        "jobs": lambda: engine.find(Filter(), limit=MOST),
        "jobs further on": lambda: engine.find(Filter(), limit=MOST, after="j10000"),
        "jobs of a queue": lambda: engine.find(Filter(queue="q1"), limit=MOST),
        "jobs that wait on a key": lambda: engine.find(Filter(waiting_on="A=7"), limit=MOST),
        **{
            str(state): lambda state=state: engine.find(Filter(states=(state,)), limit=MOST)
            for state in JobState
        },
        "failed by a filter": lambda: engine.find(
            Filter(states=(JobState.FAILED,), task="t17", error="Value", ended_since=1), limit=MOST
        ),
    })  # fmt: skip
    assert {name: number for name, number in read.items() if number > READ} == {}
    assert audit(await engine.snapshot()) == []


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_what_is_counted_is_right_as_far_as_it_goes(stored: Stored) -> None:
    engine = stored.engine
    totals = await engine.totals(most=MOST)
    assert totals.partial == {JobState.WAITING, JobState.SUCCEEDED}
    assert totals.counts == {
        JobState.SCHEDULED: 1, JobState.READY: 0, JobState.WAITING: MOST, JobState.RUNNING: 0,
        JobState.SUCCEEDED: MOST, JobState.FAILED: 1, JobState.CANCELLED: 1,
    }  # fmt: skip
    exact = await engine.totals()
    assert exact.partial == frozenset()
    assert (exact.counts[JobState.WAITING], exact.counts[JobState.SUCCEEDED]) == (WAITING - 1, ENDED - 2)
    assert [(q.name, q.waiting, q.scheduled, q.exact) for q in await engine.queues(most=MOST)] == [
        (f"q{n}", MOST, int(n == 1), False) for n in range(4)
    ]
    first = (await engine.tightest(limit=3))[0]
    assert (first.waiting, first.exact) == (WAITING // KEYS, True)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_newcomers_that_nothing_has_looked_at_are_counted_as_ready_in_their_lines_alone(
    stored: Stored, process: PostgresProcess, schema: str
) -> None:
    engine = stored.engine
    name = '"' + schema.replace('"', '""') + '"'
    process.execute(f"INSERT INTO {name}.rechecks VALUES ('c0:A=7'), ('c0:A=7'), ('c0:A=8')")
    ready = 2 * WAITING // KEYS
    assert (await engine.totals()).counts[JobState.READY] == ready
    totals = await engine.totals(most=MOST)
    assert (totals.counts[JobState.READY], totals.counts[JobState.WAITING]) == (ready, MOST)
    assert JobState.READY not in totals.partial
    queues = await engine.queues(most=MOST)
    assert [each.waiting for each in queues] == [MOST] * 4
    by_queue = {each.name: each.ready for each in queues}
    assert by_queue == {each.name: each.ready for each in await engine.queues()}
    assert sum(by_queue.values()) == ready
    found = await engine.find(Filter(states=(JobState.READY,)), limit=1000)
    assert {job.uses[0].key for job in found} == {"c0:A=7", "c0:A=8"}
    assert len(found) == ready
    waiting = await engine.find(Filter(states=(JobState.WAITING,)), limit=WAITING)
    assert len(waiting) == WAITING - 1 - ready
    read = await costs(stored, {
        "totals": lambda: engine.totals(most=MOST),
        "queues": lambda: engine.queues(most=MOST),
        "ready": lambda: engine.find(Filter(states=(JobState.READY,)), limit=MOST),
    })  # fmt: skip
    assert {page: number for page, number in read.items() if number > READ} == {}


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_count_among_many_newcomers_ends(
    stored: Stored, process: PostgresProcess, schema: str
) -> None:
    name = '"' + schema.replace('"', '""') + '"'
    process.execute(f"INSERT INTO {name}.rechecks SELECT k.key FROM {name}.keys k")
    totals = await stored.engine.totals(most=MOST)
    assert {JobState.READY, JobState.WAITING} <= totals.partial
    assert totals.counts[JobState.READY] >= MOST
    assert not any(each.exact for each in await stored.engine.queues(most=MOST))
