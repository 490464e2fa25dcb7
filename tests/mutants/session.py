"""Tests that are collected once on a copy, and run in forks of that process.

A fork has read no .sql or .lua file yet, so that mutants of these can be made under one session after another; a mutant of
Python needs a session of its own.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from tests.mutants.copies import environment
from tests.mutants.talk import Asked, Begun, Collected, Ended, Event, Forked, Ran

PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "headgate.testing.plugin", "tests.mutants.serving")
"""Whatever else is installed takes a second to load."""
PYTEST = [
    "-m", "pytest", "-q", "--no-header", "--tb=short", "--capture=no", "-p", "no:cacheprovider",
    *(word for plugin in PLUGINS for word in ("-p", plugin)),
]  # fmt: skip
STARTING = 240.0
SILENCE = 8
"""Time limits without a word until a fork is taken to hang: more than a slow test has."""


class CannotCollect(Exception):
    """The process ended before it had any tests: a mutant broke what they import."""


class Session:
    """One process with the tests that some arguments of pytest choose."""

    def __init__(self, copy: Path, arguments: Sequence[str], server: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, *PYTEST, f"--server={server}", *arguments],
            cwd=copy, env=environment(copy),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self._events: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        first = self._next(STARTING)
        if not isinstance(first, Collected):
            self.close()
            raise self._ended()
        self.tests = first.tests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and what it has started."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        _kill(self._process.pid)
        self._process.wait()

    def run(self, tests: Sequence[str], limit: float, late: int = 1) -> list[Ran]:
        """Run tests in a fork: until one fails, or `late` of them have reached the time limit."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(Asked(list(tests), limit, late)) + b"\n")
        self._process.stdin.flush()
        fork, hangs, running, ran = 0, False, None, list[Ran]()
        while not isinstance(event := self._next(SILENCE * limit), Ended):
            match event:
                case Forked(pid):
                    fork = pid
                case Begun(test):
                    running = test
                case Ran():
                    running = None
                    ran.append(event)
                case None if self._process.poll() is not None:
                    raise self._ended()
                case _:
                    hangs = True
                    _kill(fork)
        if running is not None:  # it took the fork with it
            ran.append(Ran(running, failed=True, timed_out=hangs))
        if not ran:
            raise CannotCollect(f"the fork ran no test: {self._said()}")
        return ran

    def _ended(self) -> Exception:
        """A process that was killed from outside says nothing about a mutant."""
        code = self._process.returncode
        kind = CannotCollect if code >= 0 else InterruptedError
        return kind(f"pytest ended with code {code}: {self._said()}")

    def _next(self, patience: float) -> Event | None:
        try:
            return self._events.get(timeout=patience)
        except queue.Empty:
            return None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(msgspec.json.decode(line, type=Event))
        self._process.wait()
        self._events.put(None)

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-1500:]


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
