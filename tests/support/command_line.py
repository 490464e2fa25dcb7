"""`headgate` in this process for most tests, and as a real command where processes, signals and terminals matter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from headgate.cli.program import program
from headgate.testing import use_store
from tests.support import cli_shop as shop

ROOT = Path(__file__).parent.parent.parent
SHOP = "tests.support.cli_shop:app"
COMMAND = [sys.executable, "-m", "headgate.cli"]
NEED_A_STORE = [
    "jobs",
    "job x",
    "explain x",
    "failures",
    "queues",
    "limits",
    "workers",
    "top",
    "sql x",
    "audit",
    "cancel x",
    "restart x",
    "expedite x",
    "delete x",
    "pause q",
    "resume q",
    "limit set a 1",
    "limit clear a",
]
"""The commands that look at a store or change it, and so must not make one."""


class Outcome(msgspec.Struct, frozen=True):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """The JSON documents on standard output, one a line."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        """The only one."""
        (only,) = self.documents
        return only


class Headgate:
    """The command line, on a store of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "jobs.db"
        self.url = f"sqlite:///{self.file}"

    def __call__(self, *words: str, input: str | None = None) -> Outcome:
        """Run a command in this process."""
        result = CliRunner().invoke(program, list(words), input=input, prog_name="headgate")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def enqueue(self, *words: str) -> str:
        """Enqueue a job of the shop; returns its id."""
        outcome = self("enqueue", SHOP, *words, "--url", self.url, "--json")
        assert outcome.code == 0, outcome.err
        return outcome.document["id"]

    def work(self) -> None:
        """Run what can run."""
        with use_store(shop.app, self.url):
            shop.app.run_until_idle_sync()

    def environment(self, **more: str) -> dict[str, str]:
        """For a command in a process of its own."""
        clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        return clean | {"HEADGATE_URL": self.url, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | more

    def process(self, *words: str, timeout: float = 60, **more: str) -> Outcome:
        """Run a command in a process of its own."""
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)
