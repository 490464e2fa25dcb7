"""The dashboard beside the demonstration: a real `headgate web` command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.cli.demo.tasks import STORE
from headgate.errors import HeadgateError

HOST = "127.0.0.1"
PORT = 8390
STARTS_WITHIN = 20.0


@contextmanager
def dashboard(store: str, folder: Path) -> Generator[str]:
    """Serve the store while the block runs; gives the page's address."""
    port, log = _free_port(), folder / "web.log"
    command = [
        sys.executable,
        "-m",
        "headgate.cli",
        "web",
        "headgate.cli.demo.tasks:app",
        "--port",
        str(port),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | {STORE: store},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the demonstration, which then stops it
        )
    try:
        _wait_for(process, port, log)
        yield f"http://{HOST}:{port}/"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    """The port of `headgate web`, or another one where that is taken."""
    for port in (PORT, 0):
        with suppress(OSError), socket.create_server((HOST, port)) as listening:
            return listening.getsockname()[1]
    raise HeadgateError(f"no port of {HOST} is free")


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise HeadgateError(f"the dashboard did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)
