"""Running tests on a copy, and what fails there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.mutants.copies import environment

PATIENCE = 150.0
"""Seconds for some tests, at least."""
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "headgate.testing.plugin")
"""Whatever else is installed takes a second to load, four times as long as most of these runs."""
PYTEST = [
    "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--timeout=10",
    *(word for plugin in PLUGINS for word in ("-p", plugin)),
]  # fmt: skip


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The test that noticed."""

    test: str
    timed_out: bool = False

    def __str__(self) -> str:
        return f"{self.test}{' (TIMED OUT)' if self.timed_out else ''}"


class NoSuchTest(Exception):
    """These are not among the tests."""

    def __init__(self, tests: Sequence[str]) -> None:
        super().__init__(*tests)
        self.tests = tests


def failures(tests: Sequence[str], copy: Path, *options: str, patience: float = PATIENCE) -> list[Failure]:
    """Which of some tests fail on a copy."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *PYTEST, *tests, *options],
        cwd=copy, env=environment(copy),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return [Failure(f"{_shown(tests)} after {time.monotonic() - began:.0f} s", timed_out=True)]
    if process.returncode == 0:
        return []
    if process.returncode in (4, 5):
        if unknown := re.findall(rf"^ERROR: not found: {re.escape(str(copy))}/(.*)$", said, re.MULTILINE):
            raise NoSuchTest(unknown)
        raise SystemExit(f"{_shown(tests)} cannot be run:\n{said[-1000:]}")
    found = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - (.*))?$", said, re.MULTILINE)
    return [Failure(test, "Timeout" in why) for test, why in found] or [
        Failure(f"{_shown(tests)}: code {process.returncode}")
    ]


def _shown(tests: Sequence[str]) -> str:
    return " ".join(tests[:4]) + (" …" if len(tests) > 4 else "")
