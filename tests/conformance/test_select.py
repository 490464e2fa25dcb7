"""SQL over the same tables on every store: what they show, what is found, and that nothing can be changed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import TABLES, Progress, Rows, Settings
from headgate.errors import ConfigError
from headgate.job import JobState
from tests.support.world import START, World


async def select(world: World, sql: str, **bounds: int) -> list[tuple[Any, ...]]:
    """Rows, with points in time as texts."""
    found = await world.engine.select(sql, **bounds)
    assert all(len(row) == len(found.columns) for row in found.rows)
    return [tuple(map(plain, row)) for row in found.rows]


def plain(value: Any) -> Any:
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z" if isinstance(value, datetime) else value


def text(at: int) -> str:
    """A time as it is shown."""
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%dT%H:%M:%S}.{at % SECOND:06}Z"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_a_table_has_exactly_the_columns_of_the_reference(world: World, table: Any) -> None:
    found = await world.engine.select(f"select * from {table.name}")
    assert found == Rows(tuple(column.name for column in table.columns), (), more=False)


async def test_a_question_may_need_no_table(world: World) -> None:
    assert await world.engine.select("select 1 as one, 'x' as text, null as absent;") == Rows(
        ("one", "text", "absent"), ((1, "x", None),), more=False
    )


# ── what the tables show ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_shares_expiry_and_sizes_are_shown(world: World) -> None:
    await world.limit("G", 4, sized=True)
    await world.enqueue("a", ("G", 3), share="acme")
    await world.claim()
    await world.enqueue("b", share="zeta", start_within=90 * SECOND)
    await world.enqueue("c", start_by=world.at(30))
    assert await select(world, "select id, share, start_by from jobs order by id") == [
        ("a", "acme", None),
        ("b", "zeta", text(world.at(90))),
        ("c", None, text(world.at(30))),
    ]
    assert await select(world, "select job, units from holders") == [("a", 3)]
    assert await select(world, "select share, count(*) from jobs where share = 'zeta' group by share") == [
        ("zeta", 1)
    ]


async def test_a_job_is_shown_as_it_is_stored(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("first", "A=x", tenant="acme")
    await world.claim()
    world.move(1.5)
    fields = {"args": '{"a":"é"}', "metadata": '{"m":1}', "headers": '{"h":"x"}', "unique": "u"}
    await world.enqueue("j1", "A=x", tenant="acme", queue="q", priority=7, **fields)
    await world.claim()
    await world.cancel("first")
    columns = [column.name for column in TABLES[0].columns]
    rows = await select(world, "select * from jobs order by id")
    now, later = text(START), text(world.now)
    assert dict(zip(columns, rows[0], strict=True)) == {
        "id": "first", "state": "running", "task": "t", "queue": "default", "tenant": "acme", "priority": 50,
        "due": now, "enqueued_at": now, "started_at": now, "ended_at": None, "attempt": 1, "tries": 1, "worker": "w",
        "waiting_on": None, "unique_key": None, "cancel_requested": True, "error": None, "args": "{}", "result": None,
        "progress": None, "metadata": None, "headers": None, "share": None, "start_by": None,
    }  # fmt: skip
    assert dict(zip(columns, rows[1], strict=True)) == {
        "id": "j1", "state": "waiting", "task": "t", "queue": "q", "tenant": "acme", "priority": 7,
        "due": later, "enqueued_at": later, "started_at": None, "ended_at": None, "attempt": 0, "tries": 0,
        "worker": None, "waiting_on": "A=x", "unique_key": "u", "cancel_requested": False, "error": None,
        "args": '{"a":"é"}', "result": None, "progress": None, "metadata": '{"m":1}', "headers": '{"h":"x"}',
        "share": None, "start_by": None,
    }  # fmt: skip


async def test_an_ended_job_shows_its_end(world: World) -> None:
    await world.fill(2)
    await world.claim()
    world.move(2)
    await world.report("j1", Progress, "[1,2]")
    await world.end("j1")
    await world.fail("j2", error="ValueError: no\nmore")
    columns = "id, state, started_at, ended_at, worker, error, result, progress"
    assert await select(world, f"select {columns} from jobs order by id") == [
        ("j1", "succeeded", text(START), text(world.now), "w", None, "null", "[1,2]"),
        ("j2", "failed", text(START), text(world.now), "w", "ValueError: no\nmore", None, None),
    ]


async def test_attempts_are_those_that_have_ended(world: World) -> None:
    await world.fill(3)
    await world.claim()
    world.move(1)
    await world.fail("j1", retry=0)
    await world.release("j2")
    await world.claim()
    world.move(1)
    await world.end("j1")
    rows = await select(world, "select * from attempts order by job, number")
    assert rows == [
        ("j1", 1, "failed", text(world.at(0)), text(world.at(1)), "w", "boom"),
        ("j1", 2, "succeeded", text(world.at(1)), text(world.at(2)), "w", None),
        ("j2", 1, "released", text(world.at(0)), text(world.at(1)), "w", None),
    ]
    assert await select(world, "select number from attempts where job = 'j2'") == [(1,)]
    assert await select(world, "select number from attempts where job = 'j3'") == []


@pytest.mark.parametrize("settings", [Settings(patience=1)])
async def test_holders_and_waiters_show_who_stands_where(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await world.enqueue("b", "B", queue="q")
    await world.enqueue("a", "A")
    await world.claim()
    world.move(1)
    await world.enqueue("both", "A", "B", priority=3)
    await world.end("a")
    await world.claim()
    await world.claim()
    assert await world.reserved("A") == ["both"]
    holders = await select(
        world, "select key, name, tenant, job, task, queue, worker, reserved from holders order by key"
    )
    assert holders == [
        ("A", "A", "", "both", "t", "default", None, True),
        ("B", "B", "", "b", "t", "q", "w", False),
    ]
    assert await select(world, "select since from holders where key = 'B'") == [(text(START),)]
    assert await select(world, "select * from waiters") == [
        ("B", "B", "", "both", "t", "default", 3, text(world.at(1)))
    ]


async def test_holders_and_waiters_are_found_by_key_in_every_tenant(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("AB", 1)
    await world.rate("R", 1, per=3600)
    await world.limit("task:u", 1)
    for tenant in ("", "acme", "ze:ta="):
        await world.fill(3, "A=x", tenant=tenant, prefix=f"x{tenant}")
        await world.fill(2, "A=y=z", tenant=tenant, prefix=f"y{tenant}")
        await world.fill(2, "AB=x", tenant=tenant, prefix=f"b{tenant}")
    await world.fill(3, "R=x", tenant="acme", prefix="r")
    await world.fill(2, task="u", prefix="u")
    await world.worker("w", tasks=["t", "u"])
    await world.claim_all()
    of_key = "select tenant, count(*) from {} where key = '{}' group by tenant order by tenant"
    assert await select(world, of_key.format("holders", "A=x")) == [("", 1), ("acme", 1), ("ze:ta=", 1)]
    assert await select(world, of_key.format("waiters", "A=x")) == [("", 2), ("acme", 2), ("ze:ta=", 2)]
    assert await select(world, of_key.format("waiters", "A=y=z")) == [("", 1), ("acme", 1), ("ze:ta=", 1)]
    assert await select(world, of_key.format("waiters", "R=x")) == [("acme", 2)]
    assert await select(world, of_key.format("holders", "R=x")) == []
    assert await select(world, of_key.format("holders", "task:u")) == [("", 1)]
    assert await select(world, of_key.format("waiters", "A")) == []
    by_name = "select name, count(*) from waiters group by name order by name"
    assert await select(world, by_name) == [("A", 9), ("AB", 3), ("R", 2), ("task:u", 1)]


async def test_limits_show_what_the_list_of_limits_shows(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 2, per=60, burst=5)
    await world.rate("W", 2, per=60, algorithm="sliding_window")
    await world.limit("F", 3, floating=True)
    await world.compute("F=x", 7)
    await world.override("A=y", None)
    await world.override("A", 9, tenant="acme")
    await world.fill(3, "A=x", "R")
    await world.claim()
    expected = [
        (
            status.key, status.name, status.tenant, status.kind, status.max, status.declared, status.held,
            status.waiting,
            *((status.period, status.burst, status.algorithm) if status.kind == "rate" else (None, None, None)),
        )
        for status in await world.engine.limits(now=world.now)
    ]  # fmt: skip
    order = {(row[1], row[0], row[2]): number for number, row in enumerate(expected)}
    rows = await select(world, "select * from limits")
    assert sorted(rows, key=lambda row: order[row[1], row[0], row[2]]) == expected
    assert len(expected) == 8
    assert await select(world, "select key, max from limits where name = 'F' order by key") == [
        ("F", 3),
        ("F=x", 7),
    ]
    assert await select(world, "select key from limits where name = 'nothing'") == []


async def test_overrides_show_what_operators_have_set(world: World) -> None:
    await world.limit("A", 1)
    await world.rate("R", 1)
    await world.override("A", 5, by="ada", why="month end")
    await world.override("A=x", None, until=60)
    await world.override("A", 6, tenant="acme")
    await world.override("A=x", 7, tenant="acme")
    await world.override("R", 0)
    await world.override("task:t", 3)
    now = text(world.now)
    assert await select(world, "select * from overrides order by key, tenant") == [
        ("A", "A", "", 5, "ada", now, "month end", None),
        ("A", "A", "acme", 6, "", now, "", None),
        ("A=x", "A", "", None, "", now, "", text(world.at(60))),
        ("A=x", "A", "acme", 7, "", now, "", None),
        ("R", "R", "", 0, "", now, "", None),
        ("task:t", "task:t", "", 3, "", now, "", None),
    ]


async def test_queues_and_workers_are_shown(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(3, "A", queue="b")
    await world.enqueue("later", queue="b", delay=9)
    await world.enqueue("ready", queue="a", task="u")
    await world.worker("v", tasks=["u", "t"], queues=["b", "a"], lease=15, concurrency=8)
    await world.worker("w", lease=15)
    assert await world.claim(1, worker="v", queues=["b"]) == ["j1"]
    await world.engine.pause("c", now=world.now)
    now = text(world.now)
    assert await select(world, "select * from queues order by name") == [
        ("a", False, 0, 1, 0, 0, now),
        ("b", False, 1, 0, 2, 1, None),
        ("c", True, 0, 0, 0, 0, None),
    ]
    columns = "id, host, pid, queues, tasks, concurrency, running, registered_at, lease_until"
    assert await select(world, f"select {columns} from workers order by id") == [
        ("v", "", 0, '["b","a"]', '["t","u"]', 8, 1, now, text(world.at(15))),
        ("w", "", 0, None, '["t"]', 100, 0, now, text(world.at(15))),
    ]


# ── what is found ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id = 'run'", "run"),
        ("id = 'nothing'", ""),
        ("id in ('ready', 'run', 'nothing')", "ready run"),
        ("state = 'waiting'", "wait"),
        ("state in ('waiting', 'running')", "run wait"),
        ("state = 'nonsense'", ""),
        ("state <> 'running' and queue = 'default'", "cancelled ready wait"),
        ("queue = 'q'", "later"),
        ("queue = 'default' and state = 'running'", "run"),
        ("task = 'u'", "ready"),
        ("tenant = 'acme'", "cancelled"),
        ("tenant = ''", "later ready run wait"),
        ("id = 'run' and state = 'ready'", ""),
        ("waiting_on = 'A'", "wait"),
        ("id like '%a%' and priority = 50", "cancelled later ready wait"),
        ("state = null", ""),
        ("ended_at is null", "later ready run wait"),
        ("id = (select max(j.id) from jobs j)", "wait"),
    ],
)
async def test_jobs_are_found_by_what_their_columns_say(world: World, condition: str, ids: str) -> None:
    await world.limit("A", 1)
    await world.enqueue("ready", task="u")
    await world.enqueue("run", "A")
    await world.enqueue("later", queue="q", delay=50)
    await world.enqueue("cancelled", tenant="acme")
    await world.cancel("cancelled")
    await world.worker("w", tasks=["t"])
    await world.claim()
    await world.enqueue("wait", "A")
    rows = await select(world, f"select id from jobs where {condition} order by id")
    assert [id for (id,) in rows] == ids.split()


async def test_any_characters_can_be_asked_for(world: World) -> None:
    strange = "it's =:{}\"\\ é\u2028 %_* 漢"
    await world.limit("A", 0)
    await world.enqueue("strange", f"A={strange}", queue=strange, tenant=strange, task=strange)
    await world.enqueue("other")
    await world.worker("w", tasks=[strange, "t"])
    await world.claim()
    quoted = strange.replace("'", "''")
    for condition in (f"queue = '{quoted}'", f"tenant = '{quoted}'", f"task = '{quoted}'"):
        assert await select(world, f"select id, queue from jobs where {condition}") == [("strange", strange)]
    assert await select(world, f"select key, job from waiters where key = 'A={quoted}'") == [
        (f"A={strange}", "strange")
    ]


async def test_tables_are_joined_grouped_and_counted(world: World) -> None:
    await world.limit("A", 2)
    await world.fill(5, "A=x", queue="q")
    await world.fill(3, prefix="r", queue="r", delay=5)
    await world.claim()
    assert await select(world, "select state, count(*) from jobs group by state order by state") == [
        ("running", 2), ("scheduled", 3), ("waiting", 3)
    ]  # fmt: skip
    joined = (
        "select j.queue, count(*), min(j.id) from jobs j join waiters w on w.job = j.id "
        "where w.key = 'A=x' group by j.queue"
    )
    assert await select(world, joined) == [("q", 3, "j3")]
    assert await select(
        world,
        "with busy as (select distinct job from holders) "
        "select j.id from jobs j where exists (select 1 from busy b where b.job = j.id) order by j.id",
    ) == [("j1",), ("j2",)]
    assert await select(world, "select count(*) from jobs, queues where jobs.queue = queues.name") == [(8,)]


async def test_every_row_of_a_large_table_is_there_once(world: World) -> None:
    await world.limit("A", 0)
    await world.fill(1500, "A=x")
    await world.fill(1200, prefix="d", delay=100)
    await world.claim_all()
    assert await select(world, "select count(*), count(distinct id) from jobs") == [(2700, 2700)]
    assert await select(world, "select count(*), count(distinct job) from waiters") == [(1500, 1500)]
    assert await select(world, "select held, waiting from limits where key = 'A=x'") == [(0, 1500)]


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_has_a_bounded_number_of_rows(world: World) -> None:
    await world.fill(5)
    found = await world.engine.select("select id from jobs order by id", limit=3)
    assert found == Rows(("id",), (("j1",), ("j2",), ("j3",)), more=True)
    assert not (await world.engine.select("select id from jobs", limit=5)).more
    assert (await world.engine.select("select id from jobs order by id limit 2", limit=2)).more is False


async def test_a_question_that_takes_too_long_is_ended(world: World) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(ConfigError, match=r"0\.2 s"):
        await world.engine.select(endless, timeout=SECOND // 5)
    assert await select(world, "select 1") == [(1,)]


async def test_other_verbs_go_on_while_a_question_is_answered(world: World) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    asked = asyncio.ensure_future(world.engine.select(endless, timeout=3 * SECOND))
    await asyncio.sleep(0.05)
    await world.enqueue("j1")
    assert await world.claim() == ["j1"]
    await world.end("j1")
    assert not asked.done()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await select(world, "select 1") == [(1,)]


async def test_several_questions_are_answered_at_once(world: World) -> None:
    await world.fill(3)
    answers = await asyncio.gather(*(select(world, f"select {n}, count(*) from jobs") for n in range(8)))
    assert answers == [[(n, 3)] for n in range(8)]


# ── nothing else ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "sql",
    [
        "selct 1",
        "select * from unknown",
        "select unknown from jobs",
        "select * from jobs where",
        "select 'open",
        "",
        ";",
        "-- nothing",
        "select 1; select 2",
        "select 1; delete from jobs",
    ],
)
async def test_what_is_no_question_is_refused_with_the_stores_own_words(world: World, sql: str) -> None:
    with pytest.raises(ConfigError):
        await world.engine.select(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "delete from jobs",
        "update jobs set state = 'succeeded'",
        "insert into queues (name) values ('x')",
        "drop table jobs",
        "drop view jobs",
        "create table mine (a integer)",
        "create temp table mine (a integer)",
        "create table mine as select * from jobs",
        "create view mine as select * from jobs",
        "alter table jobs add column mine integer",
        "begin",
        "commit",
        "rollback",
        "savepoint a",
        "vacuum",
        "analyze",
        "reindex",
        "pragma query_only = 0",
        "pragma journal_mode",
        "select * from pragma_table_list",
        "attach ':memory:' as other",
        "detach main",
        "select load_extension('x')",
        "with gone as (delete from jobs returning *) select * from gone",
        "copy jobs to '/tmp/headgate-must-not-be'",
        "set transaction read write",
        "lock table jobs",
        "notify headgate",
        "do $$ begin end $$",
        "truncate jobs",
    ],
)
async def test_nothing_can_be_changed(world: World, sql: str) -> None:
    await world.enqueue("j1")
    with pytest.raises(ConfigError):
        await world.engine.select(sql)
    assert await world.engine.states(["j1"]) == [JobState.READY]
    assert await select(world, "select id, state from jobs") == [("j1", "ready")]
    assert await world.claim() == ["j1"]


@pytest.mark.parametrize(
    "table", ["sqlite_master", "sqlite_schema", "temp.sqlite_master", "main.jobs", "meta", "ticks", "history"]
)
async def test_only_the_tables_of_the_reference_can_be_read(world: World, table: str) -> None:
    await world.enqueue("j1")
    with pytest.raises(ConfigError):
        await world.engine.select(f"select * from {table}")
