"""`headgate web` as a real command, for as long as a test needs it."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.child import ROOT
from tests.support.waiting import PATIENCE, eventually
from tests.support.worker_command import free_port


class WebServer:
    """The process and its address; what it logs is in `log`."""

    def __init__(
        self, folder: Path, url: str, *options: str, port: int | None = None, tokens: str = ""
    ) -> None:
        self.port = port or free_port()
        self.log = folder / f"web-{self.port}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headgate", "web", "--url", url, "--port", str(self.port), *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "HEADGATE_WEB_TOKENS": tokens},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )

    @property
    def origin(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Whether it listens; fails the test if it has ended instead."""
        assert self.process.poll() is None, self.log.read_text()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/api/v1/openapi.json")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def web_server(
    folder: Path, url: str, *options: str, port: int | None = None, tokens: str = ""
) -> Generator[WebServer]:
    """A server that answers; it is ended whatever it does."""
    server = WebServer(folder, url, *options, port=port, tokens=tokens)
    try:
        eventually(server.answers, "the server to answer")
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(PATIENCE)
