"""What users get for testing their own tasks."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, CancelJob, FailJob, HeadgateError, PayloadError, current_job
from headgate.testing import Clock, assert_enqueued, assert_not_enqueued, fake_job, use_store
from headgate.testing.plugin import AppFactory
from tests.support.plain_pytest import PYTEST

project = App("sqlite:///of-the-project.db")


@project.task
async def remind(name: str) -> str:
    return f"reminded {name}"


async def test_a_project_s_app_uses_another_store_for_a_while():
    clock = Clock()
    with use_store(project, clock=clock):
        job = await remind.options(delay=86_400).enqueue("ada")
        clock.advance(86_400)
        assert await project.run_until_idle() == 1
        assert await job.result() == "reminded ada"
        assert project.url == "memory://"
    assert project.url == "sqlite:///of-the-project.db"


async def test_the_fixture_does_it_for_one_test(headgate_app: AppFactory, headgate_clock: Clock):
    app = headgate_app(project, clock=headgate_clock)
    assert app is project
    assert await app.count() == 0
    job = await remind.options(delay=timedelta(days=1)).enqueue("bob")
    headgate_clock.advance(timedelta(days=1))
    await app.run_until_idle()
    assert await job.result() == "reminded bob"


def test_the_fixture_makes_apps_of_its_own(headgate_app: AppFactory):
    one, two = headgate_app(), headgate_app()
    assert one is not two
    assert one.url == "memory://"


def test_a_clock_stands_still_until_it_is_moved():
    clock = Clock(datetime(2026, 1, 1, tzinfo=UTC))
    assert clock() == clock() == 1_767_225_600_000_000
    assert clock.advance(1.5) == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert repr(clock) == "<Clock 2026-01-01T00:00:01.500000+00:00>"


def test_a_clock_tells_when_it_was_moved():
    clock, moves = Clock(), list[int]()
    end = clock.watch(lambda: moves.append(clock()))
    clock.advance(1)
    end()
    end()
    clock.advance(1)
    assert moves == [clock() - 1_000_000]


def test_a_clock_does_not_go_back():
    with pytest.raises(ValueError, match="advance"):
        Clock().advance(-1)


def test_a_store_that_does_not_fit_together_fails_the_test(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import headgate.engine.rules.audit\n"
        "def test_it(monkeypatch, headgate_app):\n"
        "    monkeypatch.setattr(headgate.engine.rules.audit, 'audit', lambda snapshot: ['job x is lost'])\n"
        "    headgate_app().open_sync()\n"
    )
    outcome = subprocess.run([*PYTEST, str(tmp_path)], capture_output=True, text=True)
    assert "1 passed, 1 error" in outcome.stdout
    assert "the store does not fit together:\njob x is lost" in outcome.stdout


async def test_a_store_in_memory_outlives_an_app_that_is_closed_and_opened_again():
    with use_store(project):
        job = await remind.enqueue("ada")
        async with project:  # the lifespan of a web application
            await project.run_until_idle()
        assert await job.result(timeout=0) == "reminded ada"
        async with project:
            assert await project.count() == 1
    with use_store(project):
        assert await project.count() == 0


async def test_errors_of_attempts_are_raised_on_demand(headgate_app: AppFactory):
    app = headgate_app()

    @app.task
    async def fail(why: str) -> None:
        raise LookupError(why)

    @app.task
    def fail_in_a_thread() -> Any:
        return object()

    @app.task
    async def control(how: str) -> None:
        raise CancelJob if how == "cancel" else FailJob(how)

    for how in ("cancel", "hopeless"):
        await control.enqueue(how)
    assert await app.run_until_idle(raise_errors=True) == 2
    await fail.enqueue("ada")
    with pytest.raises(LookupError, match="ada") as raised:
        await app.run_until_idle(raise_errors=True)
    assert raised.traceback[-1].name == "fail"
    assert await app.count(state="failed") == 2
    await fail.enqueue("bob")
    await fail_in_a_thread.enqueue()
    with pytest.raises(ExceptionGroup, match="2 attempts failed") as several:
        await app.run_until_idle(raise_errors=True)
    assert {type(error) for error in several.value.exceptions} == {LookupError, PayloadError}
    await fail.enqueue("eve")
    assert await app.run_until_idle() == 1


def test_a_function_that_asks_for_its_job_can_be_called_with_a_fake_one():
    def work() -> Any:
        job = current_job()
        job.progress(1)
        job.progress({"last": job.last_try, "was": job.previous_progress})
        return job.id, job.tenant, job.metadata, job.cancelled

    def look() -> Any:
        job = current_job()
        return dict(job.args), job.state, job.worker, job.due == job.enqueued_at

    with fake_job("work", id="j1", tenant="acme", metadata={"a": 1}, attempt=3, previous_progress=[7]) as job:
        assert work() == ("j1", "acme", {"a": 1}, False)
        job.cancel()
        assert current_job().cancelled
    assert job.progress == [1, {"last": True, "was": [7]}]
    with fake_job(args={"to": "ada", "copies": 2}, state="opened", worker="w1"):
        assert look() == ({"to": "ada", "copies": 2}, "opened", "w1", True)
    with fake_job():
        assert look() == ({}, None, "fake", True)
    with pytest.raises(HeadgateError, match="outside of a job"):
        current_job()


def test_claims_about_jobs_say_what_there_is(headgate_app: AppFactory):
    app = headgate_app()

    @app.task(queue="email")
    async def send(to: str, copies: int = 1) -> None: ...

    send.enqueue_sync("ada", copies=2)
    send.options(tenant="acme").enqueue_sync("bob")
    (job,) = assert_enqueued(app, send, {"to": "ada"}, queue="email", tenant=None)
    assert job.args == {"to": "ada", "copies": 2}
    assert len(assert_enqueued(app, "send", count=2)) == 2
    assert_not_enqueued(app, send, {"to": "eve"})
    with pytest.raises(
        AssertionError, match=r"(?s)one job of 'send', to='eve' should be there, and there are 0.*'bob'"
    ):
        assert_enqueued(app, send, {"to": "eve"})
    with pytest.raises(
        AssertionError, match=r"0 job of 'send', tenant='acme' should be there, and there are 1"
    ):
        assert_not_enqueued(app, send, tenant="acme")
