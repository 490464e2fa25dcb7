"""`headgate worker --health`: probes of one process, and of several under a supervisor."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.support.worker_command import free_port, page, page_once, worker_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

SHOP = """
import os
from headgate import App
app = App(os.environ["HEADGATE_URL"])

@app.task
async def work() -> int:
    return os.getpid()
"""


def test_one_process_says_how_it_stands(tmp_path: Path):
    port = free_port()
    with worker_command(
        tmp_path, SHOP, f"sqlite:///{tmp_path}/jobs.db", "--health", f"127.0.0.1:{port}"
    ) as command:
        facts = page_once(port, "/ready", 200)
        assert facts["pid"] == command.process.pid
        assert (facts["live"], facts["ready"], facts["running"], facts["stopping"]) == (True, True, 0, False)
        assert page(port, "/live")[0] == 200
        assert page(port, "/live")[1].keys() == facts.keys()
        assert command.stop() == 0
        assert page(port, "/live")[0] == 0


@pytest.mark.slow
def test_a_store_that_is_away_makes_a_process_unready_and_not_dead(tmp_path: Path):
    port, nowhere = free_port(), free_port()
    url = f"redis://127.0.0.1:{nowhere}/0"
    with worker_command(tmp_path, SHOP, url, "--health", str(port)) as command:
        facts = page_once(port, "/live", 200)
        assert (facts["ready"], facts["why"]) == (
            False,
            "the app is being loaded, or its store cannot be opened yet",
        )
        eventually(lambda: "trying again" in command.logged, "the store to be missed")
        assert page(port, "/ready")[0] == 503
        assert page(port, "/live")[0] == 200


@pytest.mark.slow(15)
def test_a_supervisor_says_how_each_of_its_processes_stands(tmp_path: Path):
    port, url = free_port(), f"sqlite:///{tmp_path}/jobs.db"

    def processes() -> list[dict]:
        return page(port, "/ready")[1].get("processes", [])

    def ready() -> list[int]:
        return [each["pid"] for each in processes() if each["ready"]]

    with worker_command(tmp_path, SHOP, url, "--processes", "2", "--health", str(port)) as command:
        eventually(lambda: len(ready()) == 2, "both to be ready")
        assert page(port, "/live")[1]["pid"] == command.process.pid
        killed, stopped = ready()
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: ready() == [stopped], "the other one to be ready alone")
        status, facts = page(port, "/live")
        assert (status, facts["ready"]) == (200, True)
        assert facts["live"], "one that is gone is started again, which is nothing to die of"
        eventually(lambda: len(ready()) == 2 and killed not in ready(), "another one in its place")
        os.kill(stopped, signal.SIGSTOP)
        try:
            facts = page_once(port, "/live", 503)
            assert [each["live"] for each in facts["processes"]] == [True, False]
            assert page(port, "/ready")[0] == 200
        finally:
            os.kill(stopped, signal.SIGCONT)
        page_once(port, "/live", 200)
        assert command.stop() == 0


def test_a_port_that_is_taken_is_said_at_the_start(tmp_path: Path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--health", f"127.0.0.1:{port}", "--processes", "2"]
        with worker_command(tmp_path, SHOP, f"sqlite:///{tmp_path}/jobs.db", *options) as command:
            assert command.process.wait(30) == 2
            assert f"cannot listen on 127.0.0.1:{port}" in command.logged.replace("\n", " ")
