"""The worker processes of the demonstration: real `headgate worker` commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from headgate.cli.demo.tasks import JOURNAL, STORE
from headgate.cli.demo.workload import CONCURRENCY, LEASE


class WorkerProcess:
    """One worker process."""

    def __init__(self, name: str, folder: Path, store: str, journal: Path) -> None:
        self.name = name
        self.log = folder / f"worker-{name}.log"
        self.killed_at: float | None = None
        command = [sys.executable, "-m", "headgate.cli", "worker", "headgate.cli.demo.tasks:app"]
        options = [
            "--name",
            name,
            "--concurrency",
            str(CONCURRENCY),
            "--lease",
            f"{LEASE:g}s",
            "--grace",
            "2s",
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command + options,
                env=os.environ | {STORE: store, JOURNAL: str(journal)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demonstration, which then stops its workers
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no goodbye. What it ran has ended by `killed_at`."""
        self._process.kill()
        self._process.wait()
        self.killed_at = time.monotonic()

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
