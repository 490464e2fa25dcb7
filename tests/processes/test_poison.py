"""Jobs that kill their process (rule 15): the guilty end failed and the innocent succeed, under a real supervisor."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from headgate.job import JobState
from tests.support.child import ROOT
from tests.support.stores import PROCESS_STORES
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow(10), pytest.mark.skipif(sys.platform == "win32", reason="signals")]

PATIENCE = 60.0
HASTY = """
from headgate.worker.process import supervisor
supervisor.FIRST_RESTART_WAIT, supervisor.LONGEST_RESTART_WAIT = 0.05, 0.4
from headgate.cli.entry import main
main()
"""
"""`headgate` with a supervisor that starts a child again sooner than it should: these tests end many."""


def on(*stores: str) -> pytest.MarkDecorator:
    """One kind of each store is enough here; `HEADGATE_EVERY_STORE=1` runs everything everywhere."""
    every = ("sqlite", "valkey", "postgres")
    wanted = every if os.environ.get("HEADGATE_EVERY_STORE") else stores or every
    return pytest.mark.parametrize("store_url", [s for s in wanted if s in PROCESS_STORES], indirect=True)


class Deployment:
    """An app on a store, and supervisors with their worker processes."""

    def __init__(self, shop: Any, log: Path) -> None:
        self.shop = shop
        self.app: App = shop.app
        self.log = log
        self._supervisors: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str, processes: int = 2, concurrency: int = 100) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", HASTY, "worker", "tests.processes.poison_shop:app"]
        command += ["--processes", str(processes), "--concurrency", str(concurrency), *options]
        with self.log.open("ab") as log:
            supervisor = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stderr=log)
        self._supervisors.append(supervisor)
        return supervisor

    def children(self, supervisor: subprocess.Popen[bytes]) -> list[int]:
        """The pids of its worker processes."""
        pids: list[int] = []
        for task in Path(f"/proc/{supervisor.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
                pids += map(int, (task / "children").read_text().split())
        return pids

    def until_done(self, patience: float = PATIENCE) -> float:
        """Wait until no job is left to do; returns the seconds it took."""
        began, unfinished = time.monotonic(), [state for state in JobState if not state.ended]

        def done() -> bool:
            gone = [each for each in self._supervisors if each.poll() not in (None, -signal.SIGKILL)]
            assert not gone, self.log.read_text()
            return self.app.count_sync(state=unfinished) == 0

        eventually(done, "all jobs to end", patience, every=0.05)
        return time.monotonic() - began

    def close(self) -> None:
        """Stop everything in good order, then by force."""
        for supervisor in self._supervisors:
            supervisor.terminate()
        for supervisor in self._supervisors:
            try:
                supervisor.wait(20)
            except subprocess.TimeoutExpired:
                supervisor.kill()
                supervisor.wait(5)


@pytest.fixture
def deployment(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("HEADGATE_URL", store_url)
    monkeypatch.delitem(sys.modules, "tests.processes.poison_shop", raising=False)
    shop = importlib.import_module("tests.processes.poison_shop")
    deployment = Deployment(shop, tmp_path / "log")
    try:
        yield deployment
        report = deployment.app.audit_sync()
        assert report.ok, report.problems
    finally:
        deployment.close()
        deployment.app.close_sync()
        sys.modules.pop("tests.processes.poison_shop", None)


def check(deployment: Deployment, guilty: list[Any], others: list[Any]) -> None:
    """The guilty failed with a reason that says so, and a line in the log; all others succeeded."""
    assert deployment.app.count_sync(state="succeeded") == len(others)
    log = deployment.log.read_text()
    for handle in guilty:
        info = handle.info_sync()
        assert info.state is JobState.FAILED
        assert "as the only suspect: it probably kills its process" in (info.error or "")
        assert any("ERROR" in line and handle.id in line for line in log.splitlines())


@on()
def test_one_poison_job_among_two_hundred_fails_alone(deployment: Deployment, record_property: Any):
    shop = deployment.shop
    jobs = [*innocent(shop, 100), shop.poison.job(), *innocent(shop, 100)]
    handles = deployment.app.enqueue_many_sync(jobs)
    deployment.start()
    took = deployment.until_done()
    record_property("seconds", took)
    print(f"1 poison among 200: {took:.1f} s, {handles[100].info_sync().attempt} crashes")
    check(deployment, [handles[100]], [*handles[:100], *handles[101:]])


def innocent(shop: Any, count: int) -> list[Any]:
    return [shop.innocent.job() for _ in range(count)]


@on("sqlite", "valkey")
def test_two_poison_jobs_of_different_tasks_fail_and_no_other(deployment: Deployment):
    shop = deployment.shop
    jobs = [*innocent(shop, 50), shop.poison.job(0.05), *innocent(shop, 50), shop.other_poison.job(0.15)]
    handles = deployment.app.enqueue_many_sync(jobs)
    deployment.start()
    print(f"2 poison among 100: {deployment.until_done():.1f} s")
    guilty = [handles[50], handles[101]]
    check(deployment, guilty, [handle for handle in handles if handle not in guilty])


@on("sqlite", "postgres")
def test_poison_that_strikes_late_is_found_too(deployment: Deployment):
    shop = deployment.shop
    jobs = [shop.innocent.job(0.9) for _ in range(60)]
    handles = deployment.app.enqueue_many_sync([*jobs, shop.poison.job(0.6)])
    deployment.start()
    print(f"late poison among 60: {deployment.until_done():.1f} s")
    check(deployment, [handles[-1]], handles[:-1])


@on("sqlite", "valkey")
def test_a_coroutine_that_blocks_the_loop_for_longer_than_the_lease_is_kept_fails_alone(
    deployment: Deployment,
):
    shop = deployment.shop
    handles = deployment.app.enqueue_many_sync([shop.block.job(2.5), *innocent(shop, 40)])
    deployment.start("--lease", "0.6s")
    print(f"a blocked loop among 40: {deployment.until_done(100):.1f} s")
    check(deployment, handles[:1], handles[1:])
    assert "has been blocked for" in deployment.log.read_text()


@on()
def test_three_deploys_that_kill_every_worker_fail_nothing(deployment: Deployment):
    shop = deployment.shop
    deployment.app.enqueue_many_sync([shop.innocent.job(1.5) for _ in range(60)])
    supervisor = deployment.start()
    for _ in range(3):
        pids = eventually(
            lambda: (p := deployment.children(supervisor)) and len(p) == 2 and p, "two processes"
        )
        eventually(lambda: deployment.app.count_sync(state="running") > 0, "jobs to run")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda gone=pids: not set(gone) & set(deployment.children(supervisor)), "their end")
    print(f"three deploys with kill -9: {deployment.until_done():.1f} s")
    assert deployment.app.count_sync(state="succeeded") == 60


@on("sqlite", "postgres")
def test_a_crash_does_not_slow_long_innocent_jobs_by_more_than_half(deployment: Deployment):
    shop, seconds = deployment.shop, 8.0
    handles = deployment.app.enqueue_many_sync([shop.innocent.job(seconds) for _ in range(20)])
    guilty = shop.poison.enqueue_sync(0.7)
    deployment.start(concurrency=20)
    deployment.until_done()
    check(deployment, [guilty], handles)
    jobs = [handle.info_sync() for handle in handles]
    began = min(attempt.started_at for job in jobs for attempt in job.attempts)
    took = (max(job.ended_at for job in jobs if job.ended_at) - began).total_seconds()
    print(f"jobs of {seconds:.0f} s beside poison: {took:.1f} s")
    assert took <= 1.5 * seconds


@on()
def test_slots_of_a_child_that_died_are_back_long_before_its_lease_ends(
    deployment: Deployment, tmp_path: Path, record_property: Any
):
    """The lease is a minute: only the supervisor's word can return them so soon, in 50 ms on an idle machine."""
    notes = tmp_path / "notes"
    handle = deployment.shop.hold.enqueue_sync(str(notes))
    deployment.start("--lease", "60s", concurrency=5)
    eventually(lambda: len(deployment.app.workers_sync()) == 2, "both processes")
    eventually(lambda: notes.exists() and notes.read_text().endswith("\n"), "the first attempt")
    pid = int(notes.read_text().split()[0])
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    assert handle.result_sync(timeout=30) != pid
    took = float(notes.read_text().splitlines()[1].split()[1]) - killed
    record_property("seconds", took)
    print(f"slot back {took * 1000:.0f} ms after kill -9")
    assert took < 10
    assert [attempt.outcome for attempt in handle.info_sync().attempts] == ["lost", "succeeded"]
