"""Tasks in several modules: declared on sets, included by an app."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from headgate import (
    App,
    ConcurrencyLimit,
    ConfigError,
    FloatingLimit,
    Retry,
    TaskDefaults,
    TaskSet,
)


def mail() -> tuple[TaskSet, Any]:
    tasks = TaskSet()

    @tasks.task(queue="email", max_concurrent=3)
    async def send(to: str, account: Annotated[str, ConcurrencyLimit(1, scope="account")] = "") -> str:
        return f"sent to {to}"

    return tasks, send


async def test_a_task_of_a_set_works_like_any_other(app: App):
    tasks, send = mail()
    app.include(tasks)
    urgent = send.options(priority=1, tenant="acme")
    jobs = [
        await send.enqueue("ada"),
        await urgent.enqueue("bob"),
        await app.enqueue(send.job("eve")),
        *await app.enqueue_many([send.job("joe"), urgent.job("zoe")]),
    ]
    assert [(await job.info()).priority for job in jobs] == [50, 1, 50, 50, 1]
    await app.run_until_idle()
    assert [await job.result() for job in jobs] == [
        f"sent to {n}" for n in ("ada", "bob", "eve", "joe", "zoe")
    ]
    assert {limit.name for limit in await app.limits()} == {"account", "task:send"}
    assert await send("ada") == "sent to ada"


def test_the_sync_twins_work_too():
    tasks, send = mail()
    with App("memory://") as app:
        app.include(tasks)
        jobs = send.enqueue_sync("ada"), send.options(delay=0).enqueue_sync("bob")
        app.run_until_idle_sync()
        assert [job.result_sync(timeout=0) for job in jobs] == ["sent to ada", "sent to bob"]


async def test_a_task_that_no_app_includes_says_so_when_it_is_enqueued():
    _, send = mail()
    urgent = send.options(priority=1)
    for call in (send.enqueue, urgent.enqueue):
        with pytest.raises(
            ConfigError, match=r"task 'send': declared in a TaskSet that no app includes; write app.i"
        ):
            await call("ada")
    for call in (send.enqueue_sync, urgent.enqueue_sync, send.job, urgent.job):
        with pytest.raises(ConfigError, match="no app includes"):
            call("ada")


def test_what_is_wrong_is_refused_where_it_is_declared():
    tasks, send = mail()
    with pytest.raises(ConfigError, match="did you mean max_concurrent="):
        tasks.task(**dict[str, Any](max_concurent=1))
    with pytest.raises(ConfigError, match="this set has a task 'send' already"):
        tasks.task(send.fn)
    with pytest.raises(ConfigError, match="priority=100"):
        send.options(priority=100)
    with pytest.raises(ConfigError, match="max_concurrent of task 'other' must be from 0"):
        tasks.task(name="other", max_concurrent=-1)(send.fn)


def test_the_defaults_are_those_of_the_app_that_includes_it():
    tasks = TaskSet()

    @tasks.task
    async def plain() -> None: ...

    @tasks.task(queue="email", timeout=1)
    async def send() -> None: ...

    tasks.queue("email", max_concurrent=5, defaults=TaskDefaults(priority=7))
    app = App("memory://", defaults=TaskDefaults(retry=Retry(attempts=9), timeout=30))
    app.include(tasks)
    assert (plain.job().timeout, plain.job().retry.attempts) == (30_000_000, 9)
    assert (send.job().timeout, send.job().priority) == (1_000_000, 7)


async def test_a_set_brings_its_queues_and_floating_limits(app: App):
    tasks = TaskSet()

    @tasks.floating_limit("size", default=2, every=1)
    def size(limit: Any) -> int:
        return 3

    @tasks.task(limits=[FloatingLimit("size")])
    async def grow() -> None: ...

    tasks.queue("email", max_concurrent=5)
    app.include(tasks)
    await grow.enqueue()
    assert {(limit.name, limit.max) for limit in await app.limits()} == {("size", 2), ("queue:email", 5)}


async def test_what_is_declared_later_is_included_too(app: App):
    tasks = TaskSet()
    app.include(tasks)
    app.include(tasks)

    @tasks.task
    async def late() -> int:
        return 1

    job = await late.enqueue()
    await app.run_until_idle()
    assert await job.result() == 1


def test_a_name_that_the_app_has_already_is_refused_and_nothing_of_the_set_is_taken():
    tasks, _ = mail()
    tasks.task(name="also")(print)
    app = App("memory://")

    @app.task(name="also")
    async def mine() -> None: ...

    with pytest.raises(ConfigError, match="has a task 'also' already"):
        app.include(tasks)
    assert list(app.tasks) == ["also"]


async def test_two_apps_may_include_a_set_and_then_the_task_of_an_app_says_which_is_meant():
    tasks, send = mail()
    first, second = App("memory://"), App("memory://")
    first.include(tasks)
    second.include(tasks)
    async with first, second:
        with pytest.raises(ConfigError, match=r"that 2 apps include; say which one: app.tasks\['NAME'\]"):
            await send.enqueue("ada")
        await first.tasks["send"].enqueue("ada")
        await second.tasks["send"].enqueue("bob")
        for app, result in ((first, "sent to ada"), (second, "sent to bob")):
            await app.run_until_idle()
            assert [job.result for job in await app.jobs()] == [result]


async def test_an_app_that_is_gone_does_not_count():
    tasks, send = mail()
    for name in ("ada", "bob"):  # a factory makes an app per test
        app = App("memory://")
        app.include(tasks)
        async with app:
            assert await (await send.enqueue(name)).status() == "ready"
        del app


def test_modules_that_need_each_other_s_tasks_need_no_circle(tmp_path: Path):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "__init__.py").touch()
    (shop / "orders.py").write_text(
        "from headgate import TaskSet\n"
        "from shop import mail\n"
        "tasks = TaskSet()\n"
        "@tasks.task\n"
        "async def order(what: str) -> str:\n"
        "    await mail.send.enqueue(what)\n"
        "    return what\n"
    )
    (shop / "mail.py").write_text(
        "from headgate import TaskSet\n"
        "tasks = TaskSet()\n"
        "@tasks.task\n"
        "async def send(what: str) -> None:\n"
        "    print('mailed', what)\n"
    )
    (shop / "app.py").write_text(
        "from headgate import App\n"
        "from shop import mail, orders\n"
        "app = App('memory://')\n"
        "app.include(orders.tasks, mail.tasks)\n"
    )
    code = (
        "from shop.app import app\n"
        "from shop.orders import order\n"
        "order.enqueue_sync('bread')\n"
        "app.run_until_idle_sync()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mailed bread\n", "")
