"""Numbers that differ from key to key, costs of slots, and limits that say what happens when they are full."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from headgate import App, BacklogFull, ConcurrencyLimit, ConfigError, RateLimit
from tests.app.flow import memory_app

app = memory_app


def width(plan: str) -> int | None:
    return {"free": 1, "pro": 3}.get(plan)


async def states(jobs: list[Any]) -> list[str]:
    return [await job.status() for job in jobs]


async def numbers(app: App, name: str) -> dict[str, int | None]:
    return {limit.key: limit.max for limit in await app.limits(name)}


async def test_a_literal_number_of_one_job_is_in_force_for_its_key_only(app: App):
    @app.task
    async def work() -> None: ...

    async def enqueue(key: str, number: int) -> list[Any]:
        limit = ConcurrencyLimit(number, scope="user", key=key)
        return [await work.options(limits=[limit]).enqueue() for _ in range(3)]

    free, pro = await enqueue("free-7", 1), await enqueue("pro-9", 2)
    assert await numbers(app, "user") == {"user": 1, "user=free-7": 1, "user=pro-9": 2}
    assert await states(free) == ["ready", "waiting", "waiting"]
    assert await states(pro) == ["ready", "ready", "waiting"]


async def test_many_jobs_in_one_step_bring_many_numbers(app: App):
    @app.task
    async def work() -> None: ...

    limits = [ConcurrencyLimit(number, scope="user", key=str(number)) for number in (1, 2, 3)]
    await app.enqueue_many(work.options(limits=[limit]).job() for limit in limits for _ in range(4))
    assert await numbers(app, "user") == {"user": 1, "user=1": 1, "user=2": 2, "user=3": 3}


async def test_a_job_may_bring_another_number_than_the_code_declares(app: App):
    @app.task
    async def work(user: Annotated[str, ConcurrencyLimit(1, scope="user")]) -> None: ...

    @app.task
    async def other() -> None: ...

    await other.options(limits=[ConcurrencyLimit(5, scope="user", key="pro")]).enqueue()
    assert await states([await work.enqueue(user) for user in ("pro", "pro", "free", "free")]) == [
        "ready",
        "ready",
        "ready",
        "waiting",
    ]


@pytest.mark.parametrize("number", [width, "width"])
async def test_a_number_is_a_function_of_the_arguments_or_one_of_them(app: App, number: Any):
    @app.task(limits=[ConcurrencyLimit(max_concurrent=number, scope="user", key="{user}")])
    async def work(user: int, plan: str, width: int) -> None: ...

    free = [await work.enqueue(7, "free", 1) for _ in range(2)]
    pro = [await work.enqueue(9, "pro", 3) for _ in range(4)]
    assert await states([*free, *pro]) == ["ready", "waiting", "ready", "ready", "ready", "waiting"]


async def test_a_rate_can_be_a_function_of_the_annotated_argument(app: App):
    @app.task
    async def call(account: Annotated[str, RateLimit(lambda name: len(name), per=60)]) -> None: ...

    jobs = [await call.enqueue("abc") for _ in range(4)]
    await app.run_until_idle()
    assert await states(jobs) == ["succeeded", "succeeded", "succeeded", "waiting"]


async def test_where_the_function_says_nothing_the_number_stays(app: App):
    @app.task(limits=[ConcurrencyLimit(width, scope="user", key="one")])
    async def work(plan: str) -> None: ...

    await work.enqueue("pro")
    await work.enqueue("unknown")
    assert (await numbers(app, "user"))["user=one"] == 3


async def test_slots_have_a_size(app: App):
    @app.task(limits=[ConcurrencyLimit(8, cost="gb", scope="gpu")])
    async def train(gb: int) -> None: ...

    jobs = [await train.enqueue(gb) for gb in (4, 8, 1)]
    assert await states(jobs) == ["ready", "waiting", "waiting"], "a large job at the head is not overtaken"
    with pytest.raises(ConfigError, match=r"cost 9 of .* is above its maximum of 8"):
        await train.enqueue(9)
    assert await states([await train.enqueue(0)]) == ["ready"], "a cost of nothing needs nothing"


async def test_a_cost_is_held_against_the_number_that_the_job_brings(app: App):
    @app.task(limits=[ConcurrencyLimit("user", max_concurrent="width", cost=2, scope="gpu")])
    async def train(user: int, width: int) -> None: ...

    await train.enqueue(1, 2)
    with pytest.raises(ConfigError, match="above its maximum of 1"):
        await train.enqueue(2, 1)


async def test_a_full_backlog_is_refused_and_nothing_is_stored(app: App):
    @app.task(limits=[ConcurrencyLimit(1, scope="s", max_waiting=2)])
    async def work() -> None: ...

    for _ in range(3):
        await work.enqueue()
    with pytest.raises(BacklogFull, match="max_waiting=2") as caught:
        await work.enqueue()
    assert caught.value.limit == "s"
    assert await app.count() == 3


async def test_a_newcomer_that_finds_no_slot_is_dropped_where_the_limit_says_so(app: App):
    @app.task(limits=[ConcurrencyLimit(1, scope="s", when_full="drop")])
    async def work() -> None: ...

    first, second = await work.enqueue(), await work.enqueue()
    assert await states([first, second]) == ["ready", "cancelled"]
    assert "when_full='drop'" in ((await second.info()).error or "")


async def test_limits_say_what_happens_where_there_is_no_room(app: App):
    app.queue("q", max_waiting=9, on_overflow="drop_oldest")
    limits = [
        ConcurrencyLimit(1, scope="door", when_full="replace"),
        ConcurrencyLimit("user", max_concurrent=1, scope="user", max_waiting=5),
        RateLimit(9, per=60, scope="pace", max_waiting=7, on_overflow="drop_newest"),
        ConcurrencyLimit(9, scope="usual"),
    ]

    @app.task(queue="q", limits=limits)
    async def work(user: int) -> None: ...

    await work.enqueue(1)
    await work.enqueue(1)
    told = {one.name: (one.when_full, one.max_waiting, one.on_overflow) for one in await app.limits()}
    assert told == {
        "door": ("replace", None, None),
        "pace": (None, 7, "drop_newest"),
        "queue:q": ("wait", 9, "drop_oldest"),
        "user": ("wait", 5, "refuse"),
        "usual": ("wait", None, None),
    }
    assert (await app.key("user=1")).limit.max_waiting == 5
    assert (await app.key("door")).limit.when_full == "replace"


async def test_a_queue_bounds_its_backlog(app: App):
    app.queue("q", max_waiting=2, on_overflow="drop_newest")

    @app.task(queue="q")
    async def work() -> None: ...

    jobs = [await work.enqueue() for _ in range(3)]
    assert await states(jobs) == ["ready", "ready", "cancelled"]


async def test_a_floating_limit_bounds_its_backlog(app: App):
    @app.floating_limit("llm", default=1, max_waiting=1)
    def number(limit: Any) -> int:
        return 1

    from headgate import FloatingLimit

    @app.task(limits=[FloatingLimit("llm")])
    async def work() -> None: ...

    await work.enqueue()
    await work.enqueue()
    with pytest.raises(BacklogFull):
        await work.enqueue()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConcurrencyLimit("a", max_concurrent="b c"), "the name of an argument"),
        (lambda: ConcurrencyLimit(5, cost=6), "above its maximum of 5"),
        (lambda: ConcurrencyLimit(5, cost=-1), "whole number from 0"),
        (lambda: ConcurrencyLimit(5, when_full="panic"), "one of wait, drop, replace, cancel"),  # type: ignore[arg-type]
        (lambda: ConcurrencyLimit(5, on_overflow="refuse"), "belongs to max_waiting="),
        (lambda: ConcurrencyLimit(5, max_waiting=0), "when_full='drop' does that"),
        (lambda: ConcurrencyLimit(5, max_waiting=1, on_overflow="x"), "one of refuse"),  # type: ignore[arg-type]
        (lambda: ConcurrencyLimit(5, max_waiting=1, when_full="drop"), "no backlog can grow"),
        (lambda: RateLimit(5, per=1, max_waiting=-1), "from 0"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(make: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        make()


def test_names_that_do_not_exist_are_refused_where_the_task_is_declared(app: App):
    for limit in (ConcurrencyLimit(max_concurrent="nope"), ConcurrencyLimit(3, cost="nope")):
        with pytest.raises(ConfigError, match="has no parameter 'nope'"):

            @app.task(limits=[limit])
            async def work(a: int) -> None: ...


async def test_a_number_that_is_none_is_refused_at_enqueue(app: App):
    @app.task(limits=[ConcurrencyLimit(max_concurrent="width", scope="s")])
    async def work(width: Any) -> None: ...

    with pytest.raises(ConfigError, match="must be a whole number, not 'x'"):
        await work.enqueue("x")
