"""`headgate worker` as a real process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.support.command_line import COMMAND, ROOT, SHOP, Headgate
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@contextmanager
def worker(headgate: Headgate, *options: str) -> Generator[subprocess.Popen[str]]:
    """A worker process; it is stopped by SIGTERM at the end, and must then exit with 0."""
    process = subprocess.Popen(
        [*COMMAND, "worker", SHOP, *options],
        cwd=headgate.folder,
        env=headgate.environment(),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.mark.parametrize(
    ("why", "state", "error"),
    [("broken", "failed", "failed: ValueError: broken"), ('""', "cancelled", "was cancelled")],
)
def test_a_job_that_was_waited_for_in_vain_is_told_as_json(
    headgate: Headgate, why: str, state: str, error: str
) -> None:
    with worker(headgate):
        words = ["enqueue", SHOP, "fail", f"why={why}", "--id", "mine", "--url", headgate.url]
        outcome = headgate(*words, "--wait", "30", "--json")
    assert outcome.code == 1
    told = outcome.document
    assert (told.pop("id"), told.pop("created"), told.pop("state")) == ("mine", True, state)
    assert error in told.pop("error")
    assert told == {}
    assert error in outcome.err


def test_a_worker_runs_jobs_is_seen_and_stops_on_sigterm(headgate: Headgate) -> None:
    id = headgate.enqueue("send", "to=ada")
    with worker(headgate, "--concurrency", "3", "--queues", "email,default", "--name", "mine"):
        eventually(
            lambda: headgate("job", id, "--json").document["state"] == "succeeded",
            "what another process does",
        )
        seen = headgate("workers", "--json").document
        assert list(seen) == [
            "id", "host", "pid", "queues", "tasks", "concurrency", "running", "registered_at", "lease_until",
        ]  # fmt: skip
        assert (seen["queues"], seen["concurrency"]) == (["email", "default"], 3)
        assert seen["id"].startswith("mine-")
        assert "email, default" in headgate("workers").out
    assert headgate("workers").out == "No workers.\n"
    assert headgate("audit").code == 0


def test_an_enqueue_can_wait_for_its_result(headgate: Headgate) -> None:
    headgate("migrate")
    with worker(headgate):
        command = ["enqueue", SHOP, "send", "--url", headgate.url, "--wait", "30s"]
        assert headgate(*command, "to=ada").out == '"sent to ada"\n'
        assert headgate(*command, "to=bob", "--json").document["result"] == "sent to bob"
        failed = headgate("enqueue", SHOP, "fail", "--url", headgate.url, "--wait", "30s")
        assert failed.code == 1
        assert "it is broken" in failed.err


def test_logs_can_be_json(headgate: Headgate) -> None:
    headgate("migrate")
    with worker(headgate, "--log-json") as process:
        assert process.stderr is not None
        line = json.loads(process.stderr.readline())
    assert {"time", "level", "logger", "message"} <= line.keys()


@pytest.mark.slow
def test_several_processes_work_and_stop_together(headgate: Headgate) -> None:
    ids = [headgate.enqueue("send", "to=ada", f"customer={n}") for n in range(4)]
    with worker(headgate, "--processes", "2", "--log-level", "warning"):
        eventually(lambda: len(headgate("workers", "--json").documents) == 2, "what another process does")
        eventually(
            lambda: headgate("jobs", "--state", "succeeded", "--count").out == f"{len(ids)}\n",
            "what another process does",
        )
    assert headgate("workers").out == "No workers.\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--concurrency", "0"], "concurrency=0"),
        (["--threads", "0"], "threads=0"),
        (["--lease", "never"], "--lease 'never'"),
        (["--lease", "1ms"], "at least 0.1 seconds"),
        (["--queues", "a=1,b"], "give all of them a weight"),
        (["--queues", "a=x"], "a weight is a number above 0"),
        (["--queues", "a=0"], "a weight is a number above 0"),
        (["--queues", ""], "queue must be a non-empty text"),
        (["--processes", "0"], "--processes"),
    ],
)
def test_wrong_options_are_usage_errors(headgate: Headgate, options: list[str], message: str) -> None:
    outcome = headgate("worker", SHOP, *options)
    assert outcome.code == 2
    assert message in outcome.err


def test_an_app_that_is_not_there_is_a_usage_error(headgate: Headgate) -> None:
    outcome = headgate("worker", "nowhere:app")
    assert outcome.code == 2
    assert "there is no module 'nowhere'" in outcome.err


def test_an_unknown_log_level_is_a_usage_error(headgate: Headgate) -> None:
    outcome = headgate.process("worker", SHOP, "--log-level", "loud")
    assert outcome.code == 2
    assert "debug, info, warning, error" in outcome.err


def test_an_app_is_found_in_the_working_directory(headgate: Headgate) -> None:
    (headgate.folder / "mine.py").write_text((ROOT / "tests" / "support" / "cli_shop.py").read_text())
    done = headgate.process("enqueue", "mine:app", "report", "--json", PYTHONPATH="")
    assert done.code == 0, done.err


def test_the_benchmark_is_pointed_to_where_it_is_missing(headgate: Headgate) -> None:
    outcome = headgate("bench")
    assert outcome.code == 2
    assert "make bench" in outcome.err


def test_the_benchmark_gets_its_arguments(headgate: Headgate) -> None:
    (headgate.folder / "bench").mkdir()
    (headgate.folder / "bench" / "__init__.py").touch()
    (headgate.folder / "bench" / "__main__.py").write_text("import sys; print(sys.argv[1:]); sys.exit(4)")
    outcome = headgate.process("bench", "--only", "drain", "--help", PYTHONPATH="")
    assert (outcome.code, outcome.out) == (4, "['--only', 'drain', '--help']\n")


STUCK = """
import atexit, pathlib, time
from headgate import App

app = App()

@app.task
def sleep():
    pathlib.Path("began").touch()
    time.sleep(600)

atexit.register(pathlib.Path("ended").touch)
"""
HASTY = """
from headgate.cli.entry import main
from headgate.worker.run import worker_run
worker_run.LAST_CALL = 0.2
main()
"""


def test_a_thread_that_outlives_its_worker_is_given_back_without_blame_when_the_process_has_ended(
    headgate: Headgate,
) -> None:
    (headgate.folder / "stuck.py").write_text(STUCK)
    id = headgate.process("enqueue", "stuck:app", "sleep", "--json").document["id"]
    words = ["worker", "stuck:app", "--lease", "1h", "--grace", "0s"]
    process = subprocess.Popen(
        [sys.executable, "-c", HASTY, *words],
        cwd=headgate.folder,
        env=headgate.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually((headgate.folder / "began").exists, "the job to begin")
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "it ends with the process" in log
    assert (headgate.folder / "ended").exists(), "what the app wants done at exit is done"
    assert headgate("workers", "--url", headgate.url).out == "No workers.\n"
    job = headgate("job", id, "--json", "--url", headgate.url).document
    assert (job["state"], job["tries"], job["suspicion"], job["lost"]) == ("ready", 0, 0, 0)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["released"]
