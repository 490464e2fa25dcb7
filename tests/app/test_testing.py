"""What users get for testing their own tasks."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate import App
from headgate.testing import Clock, use_store
from headgate.testing.plugin import AppFactory

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
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)], capture_output=True, text=True
    )
    assert "1 passed, 1 error" in outcome.stdout
    assert "the store does not fit together:\njob x is lost" in outcome.stdout
