"""`headgate worker --metrics`: the numbers of one process, and the sums of several, those that are gone included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate import App
from tests.support.command_line import COMMAND
from tests.support.waiting import eventually
from tests.support.worker_command import free_port, worker_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

SHOP = """
import os, signal
from headgate import App
from prometheus_client import Counter

app = App(os.environ["HEADGATE_URL"])
sold = Counter("shop_sold", "What the shop sold.")

@app.task(max_concurrent=5)
async def work() -> int:
    sold.inc()
    return os.getpid()

@app.task(retry=None)
async def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""
JOB = {"task": "work", "queue": "default"}


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All series by name and labels; empty as long as nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
    except OSError:
        return {}
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families), "a metric stands there twice"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(port: int, name: str, **labels: str) -> float | None:
    return scrape(port).get((name, frozenset(labels.items())))


def run(app: App, task: str, times: int) -> list[int]:
    """Enqueue jobs and wait for them; returns what they returned."""
    jobs = [app.tasks[task].enqueue_sync() for _ in range(times)]
    return [job.result_sync(timeout=60) for job in jobs]


@pytest.fixture
def shop(tmp_path: Path):
    """A producer of the same jobs."""
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(max_concurrent=5)
    async def work() -> int: ...

    @app.task
    async def die() -> None: ...

    yield app
    app.close_sync()


def test_one_process_shows_what_it_and_the_store_count(tmp_path: Path, shop: App):
    port = free_port()
    options = ["--metrics", f"127.0.0.1:{port}", "--concurrency", "7"]
    with worker_command(tmp_path, SHOP, shop.url, *options) as command:
        run(shop, "work", 3)
        ended = {**JOB, "outcome": "succeeded"}
        eventually(lambda: value(port, "headgate_attempts_ended_total", **ended) == 3, "the three ends")
        found = scrape(port)
        assert found["headgate_worker_concurrency", frozenset()] == 7
        assert found["headgate_store_up", frozenset()] == 1
        assert found["headgate_limit_max", frozenset({("limit", "task:work")})] == 5
        assert found["shop_sold_total", frozenset()] == 3
        assert found["headgate_exchange_duration_seconds_count", frozenset()] >= 2
        assert command.stop() == 0
        assert scrape(port) == {}


@pytest.mark.slow(20)
def test_a_supervisor_shows_sums_that_never_fall(tmp_path: Path, shop: App):
    port = free_port()
    options = ["--metrics", str(port), "--processes", "2", "--concurrency", "4", "--lease", "5s"]
    with worker_command(tmp_path, SHOP, shop.url, *options) as command:
        ran_in: set[int] = set()

        def both() -> bool:
            ran_in.update(run(shop, "work", 5))
            return len(ran_in) == 2

        eventually(both, "both processes to have worked")
        ended = {**JOB, "outcome": "succeeded"}
        jobs = shop.count_sync(state="succeeded")
        eventually(lambda: value(port, "headgate_attempts_ended_total", **ended) == jobs, "all ends")
        assert value(port, "headgate_worker_concurrency") == 8
        assert value(port, "shop_sold_total") == jobs
        assert value(port, "headgate_store_up") == 1
        (directory,) = Path(tempfile.gettempdir()).glob(f"headgate-metrics-*/counter_{min(ran_in)}.db")

        os.kill(min(ran_in), signal.SIGKILL)
        eventually(lambda: value(port, "headgate_worker_concurrency") == 4, "the gauges of the dead to go")
        assert value(port, "headgate_attempts_ended_total", **ended) == jobs
        assert not directory.exists()
        eventually(lambda: value(port, "headgate_worker_concurrency") == 8, "another one in its place")
        run(shop, "work", 5)
        eventually(
            lambda: value(port, "headgate_attempts_ended_total", **ended) == jobs + 5, "the sum to go on"
        )
        assert value(port, "headgate_attempt_duration_seconds_count", **JOB) == jobs + 5
        assert command.stop() == 0
    assert not directory.parent.exists()


@pytest.mark.slow(20)
def test_what_only_a_supervisor_sees_is_counted(tmp_path: Path, shop: App):
    port = free_port()
    with worker_command(tmp_path, SHOP, shop.url, "--metrics", str(port), "--processes", "2"):
        job = shop.tasks["die"].enqueue_sync()
        eventually(lambda: job.status_sync() == "failed", "the job to be given up", patience=60)
        failed = {"task": "die"}
        eventually(
            lambda: value(port, "headgate_jobs_failed_by_loss_total", **failed) == 1, "it to be counted"
        )
        lost = value(port, "headgate_lost_attempts_total")
        assert lost is not None
        assert lost == (job.info_sync()).attempt


def test_a_missing_client_is_said_before_anything_starts(tmp_path: Path):
    program = (
        "import importlib.util as util, sys\nreal = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'prometheus_client' else real(name, *more)\n"
        f"sys.argv = ['headgate', 'worker', 'shop:app', '--app-dir', {str(tmp_path)!r}, '--metrics', '9000']\n"
        "from headgate.cli.entry import main\nmain()\n"
    )
    (tmp_path / "shop.py").write_text(SHOP)
    done = subprocess.run([*COMMAND[:1], "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'headgate[prometheus]'" in done.stderr
