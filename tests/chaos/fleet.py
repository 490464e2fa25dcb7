"""The processes of a run: real `headgate worker` processes and supervisors, a program that takes slots, and producers;
killed, frozen, replaced."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos import rules
from tests.chaos.notes import note
from tests.chaos.places import Place

ROOT = Path(__file__).parents[2]
PRODUCERS, CALLER = ("producer-1", "producer-2"), "caller"
SHIFTED = Path(__file__).parent / "shifted"


class Fleet:
    """Everything that works on a place. What dies is replaced by `mend`."""

    def __init__(self, place: Place, folder: Path, dice: random.Random, pace: float) -> None:
        self.place = place
        self.folder = folder
        self.dice = dice
        self.pace = pace
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.producers: dict[str, subprocess.Popen[bytes]] = {}
        self.frozen: dict[int, float] = {}
        self.started = 0

    def mend(self) -> None:
        """Start what is not there."""
        self.mend_workers()
        for role in (*PRODUCERS, CALLER):
            if self._ended(self.producers.get(role)):
                self.producers[role] = self._producer("caller" if role == CALLER else "producer")

    def mend_workers(self) -> None:
        """Two single ones, one of them with wrong clocks, and a supervisor of two."""
        for role in ("worker", "shifted", "supervisor"):
            if self._ended(self.workers.get(role)):
                self.workers[role] = self._worker(role)

    def _ended(self, process: subprocess.Popen[bytes] | None) -> bool:
        if process is None:
            return True
        if process.poll() is None:
            return False
        note("gone", pid=process.pid, code=process.returncode)
        return True

    def _worker(self, role: str) -> subprocess.Popen[bytes]:
        environment: dict[str, str] = {}
        more = ["--processes", "2"] if role == "supervisor" else []
        if role == "shifted":
            path = os.pathsep.join(filter(None, [str(SHIFTED), os.environ.get("PYTHONPATH")]))
            environment = {"CHAOS_SHIFT": self.dice.choice(["300", "-300", "7200"]), "PYTHONPATH": path}
            if self.place.shifts_store:
                environment["CHAOS_SHIFT_STORE"] = "1"
        most = self.dice.choice(["2", "6", "20"])
        command = ["-m", "headgate", "worker", "tests.chaos.shop:app", "--concurrency", most, *more]
        command += ["--lease", f"{rules.LEASE:g}s", "--grace", "1s", "--log-level", "info"]
        return self._start(role, command, environment)

    def _producer(self, name: str) -> subprocess.Popen[bytes]:
        return self._start(name, ["-m", f"tests.chaos.{name}", str(self.dice.randrange(10**6))], {})

    def _start(self, role: str, command: list[str], more: dict[str, str]) -> subprocess.Popen[bytes]:
        self.started += 1
        environment = {
            **os.environ,
            "HEADGATE_URL": self.place.url,
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_SHARED": "1" if self.place.shared else "0",
            "CHAOS_PACE": str(self.pace),
            "PYTHONUNBUFFERED": "1",
            **more,
        }
        with (self.folder / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        note("started", pid=process.pid, role=role)
        return process

    # ── harm ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def kill_worker(self) -> None:
        """One that runs jobs, alone or under a supervisor, or holds slots; noted first: it cannot end earlier."""
        self._kill(self.dice.choice(self.pids()))

    def kill_supervisor(self) -> None:
        """Its children notice, and go."""
        self._kill(self.workers["supervisor"].pid)

    def kill_producer(self) -> None:
        """In the middle of whatever it asks for."""
        self._kill(self.dice.choice([self.producers[role] for role in PRODUCERS]).pid)

    def freeze_worker(self) -> float:
        """For less, or for more than its lease."""
        pid = self.dice.choice(self.pids())
        seconds = rules.LEASE * self.dice.choice([0.1, 0.5, 1.3])
        note("frozen", pid=pid)
        self._signal(pid, signal.SIGSTOP)
        self.frozen[pid] = time.monotonic() + seconds
        return seconds

    def thaw(self, *, all: bool = False) -> None:
        """Those whose time has come."""
        for pid, until in list(self.frozen.items()):
            if all or time.monotonic() > until:
                del self.frozen[pid]
                note("thawed", pid=pid)
                self._signal(pid, signal.SIGCONT)

    def pids(self) -> list[int]:
        """The processes that run jobs or hold slots."""
        single = [self.workers[role].pid for role in ("worker", "shifted")]
        return [*single, self.producers[CALLER].pid, *_children(self.workers["supervisor"].pid)]

    def _kill(self, pid: int) -> None:
        note("killed", pid=pid)
        self._signal(pid, signal.SIGKILL)

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def stop_producers(self) -> None:
        """They ask for nothing more."""
        for process in self.producers.values():
            process.terminate()
            process.wait()

    def stop(self, patience: float = 60) -> list[str]:
        """In good order; returns what did not go by itself."""
        stuck: list[str] = []
        for process in self.workers.values():
            process.terminate()
        for role, process in self.workers.items():
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                stuck.append(f"the {role} does not stop")
        self.kill()
        return stuck

    def kill(self) -> None:
        """Whatever is left."""
        self.thaw(all=True)
        for process in [*self.workers.values(), *self.producers.values()]:
            for pid in [*_children(process.pid), process.pid]:
                if process.poll() is None:
                    self._kill(pid)
            process.wait()


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(each) for each in found.stdout.split()]
