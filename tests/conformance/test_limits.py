"""Limits are data: declared values, operators' overrides, caps of tasks and queues."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit, LimitStatus, Override
from headgate.engine.rules.status import COUNTED_MOST
from headgate.errors import ConfigError
from headgate.job import JobState
from headgate.keys import Key, Use
from tests.support.world import World


async def test_raising_a_limit_starts_as_many_waiters_as_there_is_room_at_once(world: World) -> None:
    await world.limit("A", 1)
    await world.fill(6, "A")
    await world.claim()
    await world.limit("A", 4)
    assert [view.state for view in (await world.snapshot()).jobs].count(JobState.READY) == 3
    assert await world.claim() == ["j2", "j3", "j4"]


async def test_lowering_a_limit_below_what_runs_stops_nobody_and_starts_nobody(world: World) -> None:
    await world.limit("A", 3)
    await world.fill(6, "A")
    await world.claim()
    await world.limit("A", 1)
    assert await world.states("j1", "j2", "j3") == ["running"] * 3
    for job in ("j1", "j2"):
        await world.end(job)
        assert await world.claim() == []
    await world.end("j3")
    assert await world.claim() == ["j4"]


async def test_lowering_a_limit_takes_no_offer_for_granted(world: World) -> None:
    await world.limit("A", 3)
    await world.fill(3, "A")
    await world.limit("A", 1)
    assert await world.claim() == ["j1"], "the claim checks again"


async def test_nought_closes_a_key_and_raising_it_opens_it(world: World) -> None:
    await world.limit("A", 0)
    await world.fill(2, "A")
    assert await world.claim() == []
    await world.limit("A", 1)
    assert await world.claim() == ["j1"]


async def test_none_does_not_limit_but_is_still_held(world: World) -> None:
    await world.limit("A", None)
    await world.fill(30, "A")
    assert len(await world.claim(30)) == 30
    assert (await world.status("A")).held == 30
    await world.override("A", 30)
    await world.enqueue("late", "A")
    assert await world.claim() == []


async def test_lifting_a_limit_with_more_waiters_than_one_step_offers_starts_them_all(world: World) -> None:
    await world.limit("A", 0)
    await world.fill(2500, "A")
    await world.override("A", None)
    assert len(await world.claim_all()) == 2500
    await world.check_now()


async def test_lifting_a_limit_in_slices_does_not_forget_anybody_who_is_cancelled(world: World) -> None:
    await world.limit("A", 0)
    await world.fill(2100, "A")
    await world.override("A", None)
    await world.check_now()
    await world.cancel(*(f"j{number}" for number in range(1, 1001)))
    await world.check_now()
    assert len(await world.claim_all()) == 1100


async def test_the_newest_declaration_wins(world: World) -> None:
    await world.limit("A", 5)
    await world.limit("A", 2)
    status = await world.status("A")
    assert (status.declared, status.max) == (2, 2)


async def test_limits_can_be_declared_in_the_step_that_enqueues(world: World) -> None:
    limit = Limit("A", "concurrency", 1)
    jobs = [world.job("j1", "A"), world.job("j2", "A")]
    enqueued = await world.enqueue_all(*jobs, limits=[limit])
    assert [one.state for one in enqueued] == [JobState.READY, JobState.WAITING]


async def test_a_use_of_an_undeclared_limit_is_refused_and_nothing_is_stored(world: World) -> None:
    with pytest.raises(ConfigError, match="'A' is not declared"):
        await world.enqueue_all(world.job("j1"), world.job("j2", "A"))
    assert await world.unfinished() == {}


async def test_a_use_of_a_limit_as_what_it_is_not_is_refused(world: World) -> None:
    await world.limit("A", 1)
    with pytest.raises(ConfigError, match="'A' is declared as concurrency"):
        await world.enqueue_all(_with_uses(world, Use(Key("A", rate=True).ident)))
    assert await world.unfinished() == {}


def _with_uses(world: World, *uses: Use):
    job = world.job("j1")
    return type(job)(id=job.id, task=job.task, uses=uses)


# ── overrides ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_override_beats_the_declared_value_and_survives_a_deploy(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 3, by="ops", why="sale")
    await world.limit("A", 2)
    await world.fill(5, "A")
    assert len(await world.claim()) == 3
    status = await world.status("A")
    assert (status.declared, status.max) == (2, 3)
    assert status.override is not None
    assert (status.override.by, status.override.why, status.override.at) == ("ops", "sale", world.now)


async def test_clearing_an_override_puts_the_declared_value_back_in_force_at_once(world: World) -> None:
    await world.limit("A", 2)
    await world.override("A", 0)
    await world.fill(3, "A")
    assert await world.claim() == []
    assert await world.clear("A")
    assert await world.claim() == ["j1", "j2"]
    assert not await world.clear("A"), "there is none left"


async def test_a_second_override_of_the_same_scope_replaces_the_first(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 5, by="first")
    await world.override("A", 2, by="second")
    assert (await world.status("A")).max == 2
    assert await world.clear("A")
    assert (await world.status("A")).max == 1


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("key+tenant key tenant name", 2),
        ("key tenant name", 3),
        ("tenant name", 4),
        ("name", 5),
        ("", 1),
    ],
)
async def test_the_most_specific_override_wins(world: World, present: str, expected: int) -> None:
    await world.limit("A", 1)
    scopes = {"key+tenant": ("A=x", "acme", 2), "key": ("A=x", None, 3), "tenant": ("A", "acme", 4)}
    scopes["name"] = ("A", None, 5)
    for scope in present.split():
        key, tenant, number = scopes[scope]
        await world.override(key, number, tenant=tenant)
    await world.fill(8, "A=x", tenant="acme")
    assert len(await world.claim()) == expected


async def test_an_override_of_one_key_leaves_the_others_alone(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A=vip", 3)
    await world.fill(4, "A=vip", prefix="vip")
    await world.fill(4, "A=other", prefix="other")
    assert sorted(await world.claim()) == ["other1", "vip1", "vip2", "vip3"]


async def test_an_override_of_one_tenant_leaves_the_others_alone(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 2, tenant="acme")
    await world.fill(3, "A", tenant="acme", prefix="acme")
    await world.fill(3, "A", tenant="bolt", prefix="bolt")
    assert sorted(await world.claim()) == ["acme1", "acme2", "bolt1"]


async def test_an_override_ends_at_its_time(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 0, until=60)
    await world.enqueue("j1", "A")
    await world.later(59)
    assert await world.claim() == []
    assert (await world.exchange()).next_due == world.at(60)
    await world.later(1)
    assert (await world.status("A")).override is None
    assert await world.claim() == ["j1"]


async def test_an_override_of_an_unknown_limit_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="nothing-here"):
        await world.override("nothing-here", 1)


@pytest.mark.parametrize("cap", ["task:t", "queue:default"])
async def test_a_cap_needs_no_declaration_to_be_overridden(world: World, cap: str) -> None:
    await world.fill(3)
    await world.override(cap, 1)
    assert await world.claim() == ["j1"]
    await world.override(cap, None)
    assert await world.claim() == ["j2", "j3"]


@pytest.mark.parametrize("cap", ["task:t", "queue:default"])
async def test_clearing_the_override_of_an_undeclared_cap_frees_those_who_waited(
    world: World, cap: str
) -> None:
    await world.override(cap, 1)
    await world.fill(3)
    assert await world.claim() == ["j1"]
    await world.clear(cap)
    assert await world.claim() == ["j2", "j3"]
    await world.end("j1", "j2", "j3")
    await world.nothing_left()


@pytest.mark.parametrize("max", [0, 2])
async def test_a_lifted_limit_can_be_closed_again_while_jobs_run(world: World, max: int) -> None:
    await world.limit("A", 1)
    await world.override("A", None)
    await world.fill(5, "A")
    assert len(await world.claim()) == 5
    await world.override("A", max)
    await world.enqueue("late", "A")
    await world.end("j1", "j2", "j3")
    assert await world.claim() == []
    await world.end("j4", "j5")
    assert await world.claim() == (["late"] if max else [])


# ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cap_of_a_task_counts_its_jobs_in_all_queues(world: World) -> None:
    await world.limit("task:t", 2)
    await world.enqueue("x1", queue="x")
    await world.enqueue("y1", queue="y")
    await world.enqueue("y2", queue="y")
    assert len(await world.claim()) == 2


async def test_a_cap_of_a_queue_counts_all_tasks_in_it(world: World) -> None:
    await world.limit("queue:x", 1)
    await world.worker("w", tasks=["t", "u"])
    await world.enqueue("j1", queue="x")
    await world.enqueue("j2", queue="x", task="u")
    await world.enqueue("j3", queue="y", task="u")
    assert await world.claim() == ["j1", "j3"]
    assert await world.waiting_on("j2") == "queue:x"


async def test_a_cap_applies_to_jobs_that_were_enqueued_before_it_was_declared(world: World) -> None:
    await world.fill(4)
    await world.limit("task:t", 1)
    assert await world.claim() == ["j1"]
    await world.end("j1")
    assert await world.claim() == ["j2"]


@pytest.mark.parametrize("cap", ["task:t", "queue:default"])
async def test_a_cap_declared_while_jobs_run_counts_them_too(world: World, cap: str) -> None:
    await world.fill(2)
    await world.claim()
    await world.limit(cap, 2)
    await world.fill(2, prefix="late")
    assert await world.claim() == []
    await world.end("j1")
    assert await world.claim() == ["late1"]


@pytest.mark.parametrize("cap", ["task:t", "queue:default"])
async def test_a_cap_declared_while_jobs_run_does_not_count_those_of_others(world: World, cap: str) -> None:
    await world.worker(tasks=["t", "other"])
    await world.enqueue("stranger", task="other", queue="elsewhere")
    await world.claim()
    await world.limit(cap, 1)
    assert (await world.status(cap)).held == 0
    await world.fill(2)
    assert await world.claim() == ["j1"]


async def test_a_cap_put_up_by_an_operator_counts_what_runs(world: World) -> None:
    await world.fill(3)
    await world.claim()
    await world.override("task:t", 1)
    await world.fill(1, prefix="late")
    await world.end("j1", "j2")
    assert await world.claim() == []
    await world.end("j3")
    assert await world.claim() == ["late1"]


async def test_a_cap_is_shared_by_all_tenants(world: World) -> None:
    await world.limit("task:t", 1)
    await world.enqueue("a", tenant="acme")
    await world.enqueue("b", tenant="bolt")
    assert await world.claim() == ["a"]


async def test_a_job_that_names_its_tasks_cap_itself_counts_once(world: World) -> None:
    await world.limit("task:t", 1)
    await world.enqueue("j1", "task:t")
    await world.enqueue("j2", "task:t")
    assert await world.claim() == ["j1"]
    assert await world.held("task:t") == ["j1"]


async def test_caps_and_own_limits_are_taken_together(world: World) -> None:
    await world.limit("task:t", 1)
    await world.limit("queue:default", 5)
    await world.limit("A", 5)
    await world.fill(2, "A")
    assert await world.claim() == ["j1"]
    assert [await world.held(key) for key in ("A", "task:t", "queue:default")] == [["j1"]] * 3
    await world.end("j1")
    assert await world.claim() == ["j2"]


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_table_of_limits_shows_each_limit_followed_by_its_keys_in_use(world: World) -> None:
    await world.limit("B", 7)
    await world.limit("A", 1)
    await world.rate("R", 5, per=60)
    await world.fill(2, "A=x", prefix="x")
    await world.fill(1, "A=y", prefix="y", tenant="acme")
    await world.claim()
    await world.override("A=z", 9)
    rows = [
        (row.key, row.tenant, row.max, row.declared, row.held, row.waiting)
        for row in await world.engine.limits(now=world.now)
    ]
    assert rows == [
        ("A", "", 1, 1, 2, 1),
        ("A=x", "", 1, 1, 1, 1),
        ("A=y", "acme", 1, 1, 1, 0),
        ("A=z", "", 9, 1, 0, 0),
        ("B", "", 7, 7, 0, 0),
        ("R", "", 5, 5, 0, 0),
    ]


async def test_the_table_of_limits_can_be_asked_for_one_name(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 2)
    assert [row.name for row in await world.engine.limits("B", now=world.now)] == ["B"]
    assert await world.engine.limits("nothing-here", now=world.now) == []


async def test_a_rate_is_shown_with_its_numbers(world: World) -> None:
    await world.rate("R", 5, per=60, burst=2, algorithm="token_bucket")
    assert await world.status("R") == LimitStatus(
        "R", "R", "", "rate", 5, 5, None, 0, 0, 60 * SECOND, 2, "token_bucket", tokens=2
    )


async def test_a_key_that_is_idle_is_not_shown(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("j1", "A=x")
    await world.claim()
    await world.end("j1")
    assert [row.key for row in await world.engine.limits(now=world.now)] == ["A"]


async def test_an_override_with_everything_it_says_is_kept(world: World) -> None:
    await world.limit("A", 1)
    said = Override("A", 4, "x", "acme", "ops", world.now, "sale — ½ price", world.at(50))
    await world.engine.override(said, now=world.now)
    assert (await world.status("A=x", "acme")).override == said


async def test_clearing_a_keys_number_gives_room_where_the_tenant_has_a_larger_one(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 5, tenant="acme")
    await world.override("A=x", 2)
    await world.fill(4, "A=x", tenant="acme")
    assert await world.claim() == ["j1", "j2"]
    assert await world.clear("A=x"), "lower for all tenants but this one"
    assert await world.claim() == ["j3", "j4"]


async def test_a_number_of_one_tenant_does_not_hide_that_the_name_is_raised(world: World) -> None:
    await world.limit("A", 1)
    await world.override("A", 3, tenant="acme")
    await world.fill(3, "A=x", tenant="other")
    assert await world.claim() == ["j1"]
    await world.limit("A", 2)
    assert await world.claim() == ["j2"]


async def test_a_page_says_where_it_stopped_counting(world: World) -> None:
    await world.limit("A", 0)
    many = COUNTED_MOST + 200
    await world.enqueue_all(*(world.job(f"j{number}", "A=x") for number in range(many)))
    for row in await world.engine.limits("A", limit=2, now=world.now):
        assert row.held == 0
        if row.exact:
            assert row.waiting == many
        else:
            assert COUNTED_MOST <= row.waiting <= many
    assert [row.waiting for row in await world.engine.limits("A", now=world.now)] == [many, many]
