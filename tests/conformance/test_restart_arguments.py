"""Jobs are restarted with other arguments, and with the limits that these need."""

from __future__ import annotations

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import NewArguments, Verdict
from headgate.errors import ConfigError
from headgate.job import JobState
from headgate.keys import Use
from tests.support.world import Need, World, uses_of

S = JobState


async def restart(world: World, args: str, *needs: str, ids: tuple[str, ...] = ("j",)) -> list[Verdict]:
    """Restart with arguments that need these keys."""
    arguments = NewArguments(args, uses_of(*(world.ident(key) for key in needs)))
    verdicts = await world.engine.restart(ids, arguments=arguments, now=world.now)
    await world.check()
    return verdicts


async def failed(world: World, *needs: Need, id: str = "j", **fields: object) -> None:
    """A job that has failed."""
    await world.enqueue(id, *needs, args='{"n":1}', **fields)
    assert id in await world.claim()
    await world.fail(id)


async def test_the_next_attempt_gets_the_new_arguments(world: World) -> None:
    await failed(world)
    assert await restart(world, '{"n":"ü\\u0000"}') == [Verdict("j", True, S.READY)]
    assert (await world.get("j")).args == '{"n":"ü\\u0000"}'
    (attempt,) = (await world.exchange(want=1)).attempts
    assert (attempt.number, attempt.args) == (2, '{"n":"ü\\u0000"}')


async def test_all_else_stays_as_it_was(world: World) -> None:
    await failed(world, priority=7, tenant="acme", timeout=5, metadata="{}", unique="u", retention=9)
    before = await world.get("j")
    await restart(world, "{}")
    after = await world.get("j")
    for field in (
        "task", "queue", "tenant", "priority", "timeout", "metadata", "unique", "retention", "retry", "enqueued_at",
        "attempt", "history",
    ):  # fmt: skip
        assert getattr(after, field) == getattr(before, field), field


async def test_the_new_keys_admit_it_and_the_old_ones_do_not(world: World) -> None:
    await world.limit("A", 1)
    await world.limit("B", 1)
    await failed(world, "A")
    await world.enqueue("b", "B")
    assert await world.claim() == ["b"]
    assert await restart(world, "{}", "B=1", "B") == [Verdict("j", True, S.WAITING)]
    assert await world.waiting_on("j") == "B"
    await world.end("b")
    assert await world.claim() == ["j"]
    assert await world.held("A") == []
    assert (await world.held("B"), await world.held("B=1")) == (["j"], ["j"])
    await world.end("j")
    await world.nothing_left()


async def test_a_job_may_need_no_key_any_more(world: World) -> None:
    await world.limit("A", 0)
    await world.enqueue("j", "A")
    await world.cancel("j")
    assert await restart(world, "{}") == [Verdict("j", True, S.READY)]
    assert (await world.get("j")).uses == ()


async def test_a_rate_costs_what_the_new_arguments_need(world: World) -> None:
    await world.rate("R", 5)
    await failed(world)
    arguments = NewArguments("{}", (Use(world.ident("R"), 4),))
    await world.engine.restart(["j"], arguments=arguments, now=world.now)
    assert await world.claim() == ["j"]
    await world.enqueue("two", ("R", 2))
    assert await world.claim_all() == []
    assert await world.state("two") is S.WAITING


async def test_caps_of_task_and_queue_stay(world: World) -> None:
    await world.override("task:t", 1)
    await failed(world)
    await world.enqueue("other")
    assert await world.claim() == ["other"]
    assert await restart(world, "{}") == [Verdict("j", True, S.WAITING)]
    assert await world.waiting_on("j") == "task:t"


async def test_a_limit_that_is_not_declared_is_refused_and_nothing_changes(world: World) -> None:
    await failed(world)
    await failed(world, id="k")
    before = await world.engine.get(["j", "k"])
    with pytest.raises(ConfigError, match="'unknown' is not declared"):
        await restart(world, "{}", "unknown=1", ids=("j", "k"))
    assert await world.engine.get(["j", "k"]) == before


async def test_a_rate_cannot_be_used_as_a_concurrency_limit(world: World) -> None:
    await world.rate("R", 1)
    await failed(world)
    arguments = NewArguments("{}", uses_of("c0:R"))
    with pytest.raises(ConfigError, match="declared as rate"):
        await world.engine.restart(["j"], arguments=arguments, now=world.now)
    assert await world.state("j") is S.FAILED


async def test_a_job_that_cannot_be_restarted_keeps_its_arguments(world: World) -> None:
    await world.limit("A", 1)
    await world.enqueue("runs", args='{"n":1}')
    assert await world.claim() == ["runs"]
    await world.enqueue("ready", args='{"n":1}')
    verdicts = await restart(world, "{}", "A", ids=("runs", "ready", "unknown"))
    assert verdicts == [
        Verdict("runs", False, S.RUNNING),
        Verdict("ready", False, S.READY),
        Verdict("unknown", False, None),
    ]
    for id in ("runs", "ready"):
        assert ((await world.get(id)).args, (await world.get(id)).uses) == ('{"n":1}', ())


async def test_a_unique_key_that_is_taken_leaves_the_arguments_as_they_were(world: World) -> None:
    await failed(world, unique="u")
    await world.enqueue("rival", unique="u")
    assert await restart(world, "{}") == [Verdict("j", False, S.FAILED)]
    assert (await world.get("j")).args == '{"n":1}'


async def test_arguments_stay_replaced_when_the_job_is_restarted_again(world: World) -> None:
    await world.limit("A", 1)
    await failed(world)
    await restart(world, '{"n":2}', "A")
    assert await world.claim() == ["j"]
    await world.fail("j")
    await world.restart("j")
    assert (await world.get("j")).args == '{"n":2}'
    assert await world.claim() == ["j"]
    assert await world.held("A") == ["j"]


async def test_new_arguments_belong_to_another_share(world: World) -> None:
    await failed(world, share="a")
    await world.fill(6, prefix="a", share="a")
    await world.fill(1, prefix="b", share="b")
    await world.engine.restart(["j"], arguments=NewArguments("{}", share="c"), now=world.now)
    assert (await world.get("j")).share == "c"
    assert (await world.claim())[:4].count("j") == 1, (
        "it stands with the first of the others, not behind all of share a"
    )
    await world.fail("j")
    await world.engine.restart(["j"], arguments=NewArguments("{}"), now=world.now)
    assert (await world.get("j")).share == "c"


async def test_a_job_without_a_share_gets_none(world: World) -> None:
    await failed(world)
    await world.engine.restart(["j"], arguments=NewArguments("{}", share="c"), now=world.now)
    assert (await world.get("j")).share is None
    assert await world.claim() == ["j"]


async def test_a_unique_key_stays_taken_after_the_first_start_as_it_asked(world: World) -> None:
    await world.enqueue("j", unique="u", unique_for=60 * SECOND)
    await world.cancel("j")
    await restart(world, "{}")
    assert await world.claim() == ["j"]
    await world.end("j")
    (answer,) = await world.enqueue_all(world.job("k", unique="u"))
    assert not answer.created
    await world.later(61)
    (answer,) = await world.enqueue_all(world.job("k", unique="u"))
    assert answer.created


async def test_a_share_is_charged_as_it_was(world: World) -> None:
    await failed(world, share="a", charge="time")
    await restart(world, "{}")
    assert await world.claim() == ["j"]
    await world.later(30)
    await world.end("j")
    await world.fill(2, share="a", charge="time")
    await world.met()
    first, second = sorted(view.tag for view in (await world.snapshot()).jobs)
    assert second - first > 20_000, "for the time that it took, not for its start"


async def test_slots_with_a_size_are_those_of_the_new_arguments(world: World) -> None:
    await world.limit("G", 4, sized=True)
    await failed(world, ("G", 1))
    arguments = NewArguments("{}", (Use(world.ident("G"), 3),))
    await world.engine.restart(["j"], arguments=arguments, now=world.now)
    assert await world.claim() == ["j"]
    assert (await world.status("G")).held == 3
    await world.enqueue("two", ("G", 2))
    assert await world.claim() == []
    await world.end("j")
    assert await world.claim() == ["two"]


async def test_the_number_that_the_new_arguments_bring_is_in_force(world: World) -> None:
    await world.limit("U", 1, per_key=True)
    await failed(world, ("U=7", 1, 1))
    arguments = NewArguments("{}", (Use(world.ident("U=7"), 1, 3),))
    await world.engine.restart(["j"], arguments=arguments, now=world.now)
    await world.check()
    assert (await world.status("U=7")).max == 3
    await world.fill(3, "U=7")
    assert len(await world.claim_all()) == 3
