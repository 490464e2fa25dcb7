"""A Python process that a test talks to, line by line. Nothing waits without a deadline."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]

PRELUDE = """
import asyncio, json, os, signal, sys, threading, time
from headgate.engine.contract import *
from headgate.engine.open import make_engine
from headgate.engine.sqlite import SqliteEngine
from headgate.job import NewJob

def say(*values):
    os.write(1, (json.dumps(values if len(values) > 1 else values[0]) + "\\n").encode())

def hear():
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    return json.loads(line)
"""


class Child:
    """A process that runs `script`, with `say(value)` and `hear()` for talking to the test."""

    def __init__(self, script: str, *args: object, prefix: Sequence[str] = (), **environment: str) -> None:
        self._pending = b""
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", PRELUDE + script, *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **environment},
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, value: Any) -> None:
        """Send a line that it will `hear()`."""
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(value) + "\n").encode())

    def hear(self, patience: float = PATIENCE) -> Any:
        """The next thing that it says."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + patience
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            said = select.select([self.process.stdout], [], [], max(left, 0))[0]
            assert said, "the process says nothing"
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"the process ended with code {self.process.wait(patience)}"
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def wait(self, patience: float = PATIENCE) -> int:
        """Its exit code."""
        return self.process.wait(patience)

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
