"""The examples of web applications as real servers, each on a store of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.child import ROOT
from tests.support.waiting import PATIENCE, eventually
from tests.support.worker_command import free_port

SERVERS = {
    "web_fastapi": ["uvicorn", "web_fastapi:web"],
    "web_starlette": ["uvicorn", "web_starlette:web"],
    "web_litestar": ["uvicorn", "web_litestar:web"],
    "web_flask": ["flask", "--app", "web_flask:web", "run"],
}
EMBEDDED = [name for name, command in SERVERS.items() if command[0] == "uvicorn"]


class Site:
    """A running example."""

    def __init__(self, name: str, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/jobs.db"
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{free_port()}", timeout=PATIENCE)
        self.log = folder / "log"
        environment = {**os.environ, "HEADGATE_URL": self.url, "PYTHONPATH": str(ROOT / "examples")}
        programs = [[*SERVERS[name], "--port", str(self.client.base_url.port)]]
        if name not in EMBEDDED:
            programs.append(["headgate", "worker", f"{name}:jobs"])
        with self.log.open("ab") as log:
            self.processes = [
                subprocess.Popen(
                    [sys.executable, "-m", *each], cwd=folder, env=environment, stderr=log, stdout=log
                )
                for each in programs
            ]

    def answers(self) -> bool:
        """Whether it listens; fails the test if it has ended instead."""
        for process in self.processes:
            assert process.poll() is None, self.log.read_text()
        try:
            return self.client.get("/jobs/none").status_code == 404
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """SIGTERM to all, and wait for their ends."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(PATIENCE)

    def close(self) -> None:
        """End it whatever it does."""
        self.client.close()
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def running(name: str, folder: Path) -> Generator[Site]:
    site = Site(name, folder)
    try:
        eventually(site.answers, f"{name} to answer")
        yield site
    finally:
        site.close()


@pytest.fixture(scope="module", params=sorted(SERVERS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Each example in turn."""
    with running(request.param, tmp_path_factory.mktemp("site")) as site:
        yield site
