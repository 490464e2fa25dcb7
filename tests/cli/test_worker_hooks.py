"""The lifespan, middleware and listeners of an app in a worker that the command line started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, Headgate
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

HOOKED = """
import logging
import os
import pathlib
from contextlib import asynccontextmanager

from headgate import App, current_job

NOTES = pathlib.Path(__file__).with_name("notes.txt")


def note(*words):
    with NOTES.open("a") as file:
        print(*words, file=file)


@asynccontextmanager
async def lifespan(app):
    note("entered")
    if os.environ.get("BREAK"):
        raise ConnectionError("no route to the database")
    yield "the state"
    note("left")


app = App(lifespan=lifespan)


@app.task
def work(n: int) -> str:
    note("work", n, current_job().state)
    logging.getLogger("shop").warning("worked on %d", n)
    return f"done {n}"


@app.middleware
async def around(job, call_next):
    note("before", job.args["n"])
    result = await call_next()
    note("after", result)
    return result


@app.on("started", "succeeded")
def told(event):
    note("told", event.name, event.task)


@app.on("worker_started", "worker_stopped")
async def worker_told(event):
    note("told", event.name)
"""


@pytest.fixture
def hooked(headgate: Headgate) -> Path:
    """A module with an app that notes what happens; gives the file of notes."""
    (headgate.folder / "hooked.py").write_text(HOOKED)
    return headgate.folder / "notes.txt"


def start(headgate: Headgate, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "worker", "hooked:app", *options],
        cwd=headgate.folder,
        env=headgate.environment(**environment),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def stop(process: subprocess.Popen[str]) -> str:
    """Stop a worker in good order; returns what it wrote."""
    process.send_signal(signal.SIGTERM)
    _, written = process.communicate(timeout=30)
    assert process.returncode == 0, written
    return written


def test_the_hooks_of_an_app_reach_the_worker_of_the_command_line(headgate: Headgate, hooked: Path) -> None:
    done = headgate.process("enqueue", "hooked:app", "work", "n=3")
    assert done.code == 0, done.err
    process = start(headgate)
    try:
        eventually(lambda: hooked.exists() and "told succeeded work" in hooked.read_text(), "the job's end")
        stop(process)
    finally:
        process.kill()
    assert hooked.read_text().splitlines() == [
        "entered",
        "told worker_started",
        "told started work",
        "before 3",
        "work 3 the state",
        "after done 3",
        "told succeeded work",
        "told worker_stopped",
        "left",
    ]


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["one", "several"])
def test_a_lifespan_that_fails_ends_the_worker_with_a_line_and_a_code_of_its_own(
    headgate: Headgate, hooked: Path, options: list[str]
) -> None:
    process = start(headgate, *options, BREAK="1")
    try:
        _, written = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 4
    assert (
        "the lifespan lifespan failed, so no job is run: ConnectionError: no route to the database" in written
    )
    assert "Traceback" in written
    starts = hooked.read_text().splitlines()
    assert starts in (["entered"], ["entered"] * 2), "nothing is started again and again"


CONFIGURED = """
import logging

logging.basicConfig(format="MINE %(name)s %(message)s %(job)s", level="WARNING", force=True)
"""


def run_one(headgate: Headgate, hooked: Path, *options: str) -> str:
    """What a worker writes that runs one job."""
    assert headgate.process("enqueue", "hooked:app", "work", "n=3", "--id", "j1").code == 0
    process = start(headgate, *options)
    try:
        eventually(lambda: hooked.exists() and "told succeeded work" in hooked.read_text(), "the job's end")
        return stop(process)
    finally:
        process.kill()


@pytest.mark.parametrize("options", [[], pytest.param(["--processes", "2"], marks=pytest.mark.slow)])
def test_a_line_of_task_code_names_its_job(headgate: Headgate, hooked: Path, options: list[str]) -> None:
    written = run_one(headgate, hooked, *options)
    (line,) = [line for line in written.splitlines() if "worked on 3" in line]
    assert line.endswith("WARNING shop: worked on 3 [work j1 attempt 1]")
    assert f"on sqlite:///{headgate.file}, all queues, concurrency 100" in written


def test_a_json_line_of_task_code_carries_its_job(headgate: Headgate, hooked: Path) -> None:
    written = run_one(headgate, hooked, "--log-json")
    (line,) = [line for line in map(json.loads, written.splitlines()) if line["logger"] == "shop"]
    assert (line["job"], line["task"], line["attempt"], line["queue"]) == ("j1", "work", 1, "default")


@pytest.mark.parametrize(
    "options",
    [[], ["--log-level", "debug"], pytest.param(["--processes", "2"], marks=pytest.mark.slow)],
    ids=str,
)
def test_logging_that_the_app_has_configured_stays(
    headgate: Headgate, hooked: Path, options: list[str]
) -> None:
    module = headgate.folder / "hooked.py"
    module.write_text(CONFIGURED + module.read_text())
    written = run_one(headgate, hooked, *options)
    assert "MINE shop worked on 3 j1" in written.splitlines()
    assert "MINE headgate.worker worker" in written, "Headgate's own lines come by the same handler"
    assert written.count("worked on 3") == 1


def test_without_any_log_configuration_headgate_writes_nothing(headgate: Headgate, hooked: Path) -> None:
    written = run_one(headgate, hooked, "--log-config", "none", "--log-level", "debug")
    assert written == "worked on 3\n", "the last resort of Python's logging, for the app's own warning"


def test_an_unknown_log_configuration_is_a_usage_error(headgate: Headgate, hooked: Path) -> None:
    outcome = headgate("worker", "hooked:app", "--log-config", "logging.ini")
    assert outcome.code == 2
    assert "auto, or none" in outcome.err
