"""A dashboard that is open while something is measured: `headgate web`, and what a browser on its overview asks."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

READY_SECONDS = 30
RENEWED = 1.0
"""Seconds after which the page asks again, when an event has said that something has changed."""


class Dashboard:
    """The server, for as long as the block lasts; `watch()` opens and closes the page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._browser: subprocess.Popen[bytes] | None = None
        self._seconds = 0.0
        self._used = 0.0
        self._since: tuple[float, float] | None = None

    def __enter__(self) -> Self:
        self._port = _free_port()
        command = [str(Path(sys.executable).with_name("headgate")), "web", "--url", self._url]
        self._server = subprocess.Popen([*command, "--port", str(self._port)], stdout=sys.stderr)
        end = time.monotonic() + READY_SECONDS
        while not _answers(self._port):
            if time.monotonic() > end or self._server.poll() is not None:
                raise SystemExit("`headgate web` does not answer")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.watch(on=False)
        self._server.send_signal(signal.SIGTERM)
        self._server.wait()

    def watch(self, *, on: bool) -> None:
        """Open the page, or close it."""
        if self._browser is not None:
            self._browser.kill()
            self._browser.wait()
            self._browser = None
        if self._since is not None:
            begun, used = self._since
            self._seconds += time.monotonic() - begun
            self._used += self._cpu_seconds() - used
            self._since = None
        if on:
            command = [sys.executable, "-m", __name__, str(self._port)]
            self._browser = subprocess.Popen(command)
            time.sleep(1)
            self._since = time.monotonic(), self._cpu_seconds()

    def cpu(self) -> float:
        """How much of a core the server has used while the page was open, in per cent."""
        return 100 * self._used / self._seconds if self._seconds else 0.0

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _answers(port: int) -> bool:
    try:
        return _get(port, "/api/v1/openapi.json") == 200
    except OSError:
        return False


def _get(port: int, path: str) -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
        connection.request("GET", path, headers={"x-headgate-part": "1"})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def browse(port: int) -> None:
    """What a browser does that shows the overview: it follows the events, and renews the page when one has come."""
    stream = http.client.HTTPConnection("127.0.0.1", port)
    stream.request("GET", "/api/v1/events")
    last = 0.0
    for line in stream.getresponse():
        if line.startswith(b"event:") and time.monotonic() - last > RENEWED:
            last = time.monotonic()
            _get(port, "/")


if __name__ == "__main__":
    browse(int(sys.argv[1]))
