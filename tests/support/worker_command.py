"""`headgate worker` as a real command, on an app that the test writes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.child import ROOT
from tests.support.waiting import PATIENCE, eventually


class WorkerCommand:
    """The process, and what it logs."""

    def __init__(self, folder: Path, source: str, url: str, *options: str) -> None:
        (folder / "worked_shop.py").write_text(source)
        self.log = folder / "log"
        self._file = self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headgate", "worker", "worked_shop:app", *options],
            cwd=folder,
            env={**os.environ, "HEADGATE_URL": url, "PYTHONPATH": f"{folder}:{ROOT}"},
            stdin=subprocess.DEVNULL,
            stderr=self._file,
        )

    @property
    def logged(self) -> str:
        """What it has logged so far."""
        return self.log.read_text()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """End it whatever it does: a supervisor that is asked three times kills its children."""
        for _ in range(3):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self._file.close()


@contextmanager
def worker_command(folder: Path, source: str, url: str, *options: str) -> Generator[WorkerCommand]:
    """A command at work; it is gone at the end."""
    command = WorkerCommand(folder, source, url, *options)
    try:
        yield command
    finally:
        command.close()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def page(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a page; 0 while nothing listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except ConnectionError:
        return 0, {}
    finally:
        connection.close()


def page_once(port: int, path: str, status: int) -> dict[str, Any]:
    """What a page says, as soon as its status is this one."""
    return eventually(
        lambda: (answer := page(port, path))[0] == status and answer[1], f"{path} to answer {status}"
    )
