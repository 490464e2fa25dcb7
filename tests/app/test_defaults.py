"""What an app or a queue says for tasks that say nothing: the task's own word counts first."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headgate import App, ConfigError, Retry, TaskDefaults, TaskSet

OWN, QUEUE, APP = Retry(attempts=2), Retry(attempts=3), Retry(attempts=4)


async def work() -> None: ...


def test_what_a_task_says_counts_before_its_queue_and_that_before_the_app():
    app = App("memory://", defaults=TaskDefaults(retry=APP, timeout=4, priority=4, retention=400))
    app.queue("email", defaults=TaskDefaults(retry=QUEUE, timeout=3, priority=3))
    own = app.task(name="own", queue="email", retry=OWN, timeout=2)(work)
    queue = app.task(name="queue", queue="email")(work)
    plain = app.task(name="plain")(work)
    shown = [
        (job.queue, job.retry.attempts, job.timeout, job.priority, job.retention)
        for job in (own.job(), queue.job(), plain.job())
    ]
    assert shown == [
        ("email", 2, 2_000_000, 3, 400_000_000),
        ("email", 3, 3_000_000, 3, 400_000_000),
        ("default", 4, 4_000_000, 4, 400_000_000),
    ]
    assert (own.retry, queue.retry, plain.retry) == (OWN, QUEUE, APP)


def test_without_any_defaults_everything_is_as_always():
    job = App("memory://").task(work).job()
    assert (job.queue, job.priority, job.timeout, job.retention) == ("default", 50, None, None)


def test_the_app_s_default_queue_brings_that_queue_s_defaults():
    app = App("memory://", defaults=TaskDefaults(queue="email"))
    app.queue("email", defaults=TaskDefaults(priority=7))
    assert (app.task(work).queue, app.tasks["work"].job().priority) == ("email", 7)


def test_defaults_of_a_queue_count_for_tasks_that_were_declared_before():
    app = App("memory://", defaults=TaskDefaults(timeout=4))
    before = app.task(queue="email", priority=1)(work)
    other = app.task(name="other")(work)
    app.queue("email", defaults=TaskDefaults(timeout=3, priority=3, retry=QUEUE))
    job = before.job()
    assert (job.timeout, job.priority, before.retry) == (3_000_000, 1, QUEUE)
    assert other.job().timeout == 4_000_000


def test_a_task_may_have_no_timeout_in_spite_of_the_defaults():
    app = App("memory://", defaults=TaskDefaults(timeout=4))
    assert app.task(timeout=math.inf)(work).job().timeout is None


async def test_a_policy_of_the_app_is_what_the_worker_goes_by():
    app = App("memory://", defaults=TaskDefaults(retry=Retry(attempts=3, delay=0)))

    @app.task
    async def fail() -> None:
        raise OSError("away")

    async with app:
        job = await fail.enqueue()
        await app.run_until_idle()
        assert (await job.info()).tries == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 100}, "priority="),
        ({"queue": ""}, "queue"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout="),
        ({"retention": -1}, "retention="),
        ({"retry": 5}, "a Retry is needed"),
    ],
)
def test_defaults_that_cannot_work_are_refused(options: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        TaskDefaults(**options)


def test_what_is_no_default_is_refused():
    wrong: Any = {"timeout": 5}
    with pytest.raises(ConfigError, match=r"App\(defaults=\){'timeout': 5}: a TaskDefaults is needed"):
        App("memory://", defaults=wrong)
    app = App("memory://")
    with pytest.raises(ConfigError, match="a TaskDefaults is needed"):
        app.queue("email", defaults=wrong)
    with pytest.raises(ConfigError, match="a queue's defaults name no queue"):
        app.queue("email", defaults=TaskDefaults(queue="other"))


def test_a_queue_has_its_defaults_once():
    for declared in (App("memory://"), TaskSet()):
        declared.queue("email", defaults=TaskDefaults(timeout=3))
        declared.queue("email", defaults=TaskDefaults(timeout=3))
        declared.queue("email", max_concurrent=5)
    app = App("memory://")
    app.queue("email", defaults=TaskDefaults(timeout=3))
    with pytest.raises(ConfigError, match="other defaults already"):
        app.queue("email", defaults=TaskDefaults(timeout=4))
    assert repr(TaskDefaults(priority=3)) == "TaskDefaults(priority=3)"
