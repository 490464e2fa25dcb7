"""The supervisor of worker processes: starts them, starts again what dies, stops them together.

It holds nothing but processes and their exit codes: the app is imported in the children alone, so that nothing of it
can take the supervisor down. Everything it reacts to arrives in one queue: a signal, the end of a child, or time. When
a child is gone without having retired its workers, the store is told at once (lost_workers.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import IO, assert_never

import msgspec

from headgate.worker.process.children_health import ChildrenHealth
from headgate.worker.process.config import (
    CANNOT_START,
    DONE,
    LIFESPAN_FAILED,
    RELOAD,
    ChildFiles,
    ProcessConfig,
)
from headgate.worker.process.endpoints import Pages, endpoints
from headgate.worker.process.http_endpoint import listen
from headgate.worker.process.lost_workers import LossReporter, LostWorkers
from headgate.worker.process.numbers import SupervisorNumbers
from headgate.worker.registrations import Notes, read_notes

log = logging.getLogger("headgate.worker")

FIRST_RESTART_WAIT = 0.5
LONGEST_RESTART_WAIT = 30.0
STEADY_WORK = 10.0
"""Seconds after which a child counts as having worked: its next end is a new accident."""
LAST_REPORTS = 2.0
"""Seconds to tell the store of the last children's workers before the supervisor ends."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""What ends a process whatever it does; Windows has but one way."""
KILL_AFTER = 5.0
"""Seconds that a child has after the second signal before it is killed."""


class ChildEnded(msgspec.Struct, frozen=True):
    """A child ended."""

    index: int
    code: int


class Signalled(msgspec.Struct, frozen=True):
    """A signal asks the supervisor to stop."""

    number: int


Spawn = Callable[[ProcessConfig, int, ChildFiles], "subprocess.Popen[bytes]"]


class Child:
    """One place in the row of worker processes: the process that fills it now, and when it is to be started again."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.process: subprocess.Popen[bytes] | None = None
        self.registrations_file: IO[bytes] | None = None
        self.port: int | None = None
        """Where the process answers over HTTP."""
        self.answered = False
        """Whether it has done so."""
        self.started_at = 0.0
        self.start_at: float | None = 0.0
        self.starts = 0
        self.wait = FIRST_RESTART_WAIT

    @property
    def alive(self) -> bool:
        """Whether a process fills it now."""
        return self.process is not None

    @property
    def pid(self) -> int | None:
        """The id of the process that fills it now."""
        process = self.process  # read once: the endpoint's thread asks, too
        return None if process is None else process.pid

    def signal(self, number: int) -> None:
        """Send a signal, if a process is there."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def next_wait(self, now: float) -> float:
        """Seconds until it is started again: longer each time, unless it worked for a while."""
        if now - self.started_at >= STEADY_WORK:
            self.wait = FIRST_RESTART_WAIT
        wait, self.wait = self.wait, min(self.wait * 2, LONGEST_RESTART_WAIT)
        return wait


def spawn(config: ProcessConfig, index: int, files: ChildFiles) -> subprocess.Popen[bytes]:
    """Start a child. It gets a session of its own, so that Ctrl-C reaches it through us only, a pipe as standard
    input, whose end tells it that we are gone, and its files."""
    text = msgspec.json.encode(config.for_child(index, files)).decode()
    command = [sys.executable, "-m", "headgate.worker.process.child", text]
    passed = [file for file in (files.registrations, files.endpoint) if file is not None]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, pass_fds=passed)


class Supervisor:
    """`run()` is the whole of it; `pids` are the living children."""

    def __init__(
        self, config: ProcessConfig, *, numbers: SupervisorNumbers | None = None, spawn: Spawn = spawn
    ) -> None:
        self._config = config
        self._numbers = numbers
        self._spawn = spawn
        self._children = [Child(index) for index in range(config.processes)]
        self._queue: queue.SimpleQueue[ChildEnded | Signalled] = queue.SimpleQueue()
        self._signals = 0
        self._kill_at: float | None = None
        self._killing = False
        self._losses = LossReporter(None if numbers is None else numbers.lost)
        self._code = DONE

    @property
    def pids(self) -> list[int]:
        """The process ids of the children, in their order."""
        return [child.process.pid for child in self._children if child.process is not None]

    def run(self) -> int:
        """Supervise until all children have stopped on request; returns the exit code."""
        with self._answering(), self._handlers():
            while not (self._signals and not self.pids):
                self._start_due()
                self._kill_late()
                if event := self._next():
                    self._handle(event)
        self._losses.close(LAST_REPORTS)
        return self._code

    @contextlib.contextmanager
    def _answering(self) -> Generator[None]:
        health, numbers = ChildrenHealth(self._children), self._numbers
        with contextlib.ExitStack() as stack:
            summed: Pages = {} if numbers is None else stack.enter_context(numbers.summed(self._children))
            stack.enter_context(
                endpoints([(self._config.health, health.pages()), (self._config.metrics, summed)])
            )
            yield

    def stop(self) -> None:
        """Stop as if signalled; from any thread."""
        self._queue.put(Signalled(signal.SIGTERM))

    def _start_due(self) -> None:
        for child in self._children:
            if not self._signals and child.start_at is not None and child.start_at <= time.monotonic():
                self._start(child)

    def _start(self, child: Child) -> None:
        with self._files(child) as files:
            process = child.process = self._spawn(self._config, child.index, files)
        child.start_at, child.started_at = None, time.monotonic()
        child.starts += 1
        log.info(
            "worker process %d of %d started (pid %d)", child.index + 1, len(self._children), process.pid
        )

        def wait() -> None:
            self._queue.put(ChildEnded(child.index, process.wait()))

        threading.Thread(target=wait, name=f"headgate-child-{child.index + 1}", daemon=True).start()

    @contextlib.contextmanager
    def _files(self, child: Child) -> Generator[ChildFiles]:
        """What a new process is given. Its socket is closed here at once: what listens there ends with the process."""
        if os.name != "posix":  # a process cannot be given files there
            yield ChildFiles()
            return
        child.registrations_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child has ended
        registrations = child.registrations_file.fileno()
        if not self._config.answers:
            yield ChildFiles(registrations=registrations)
            return
        with listen("127.0.0.1", 0) as listener:
            child.port, child.answered = listener.getsockname()[1], False
            yield ChildFiles(registrations=registrations, endpoint=listener.fileno())

    def _next(self) -> ChildEnded | Signalled | None:
        times = [
            child.start_at for child in self._children if child.start_at is not None and not self._signals
        ]
        times += [] if self._kill_at is None else [self._kill_at]
        try:
            return self._queue.get(timeout=max(min(times) - time.monotonic(), 0) if times else None)
        except queue.Empty:
            return None

    def _handle(self, event: ChildEnded | Signalled) -> None:
        match event:
            case ChildEnded():
                self._ended(self._children[event.index], event.code)
            case Signalled():
                self._signalled()
            case _:
                assert_never(event)

    def _ended(self, child: Child, code: int) -> None:
        if child.process is not None and child.process.stdin is not None:
            child.process.stdin.close()
        child.process = None
        notes = self._read_notes(child)
        self._report_losses(notes, code)
        if self._signals:
            return
        if code == DONE and notes.worn_out:
            log.info("worker process %d has done its share; starting another one", child.index + 1)
            child.start_at = time.monotonic()
        elif code in (CANNOT_START, LIFESPAN_FAILED) and child.starts == 1:
            self._code = code
            self._signalled()
        else:
            self._start_again(child, code)

    def _read_notes(self, child: Child) -> Notes:
        """What a child that has ended left behind."""
        if child.registrations_file is None:
            return Notes(None, [], [])
        with child.registrations_file as file:
            child.registrations_file = None
            return read_notes(file.fileno())

    def _report_losses(self, notes: Notes, code: int) -> None:
        """A child that crashed has lost its workers; one that ended, or was killed, because it was told to has not."""
        if notes.store is not None:
            told = code in (DONE, RELOAD) or (self._killing and code == -KILL)
            until = time.monotonic() + self._config.lease
            self._losses.report(LostWorkers(notes.store, notes.workers, not told, until))

    def _start_again(self, child: Child, code: int) -> None:
        now = time.monotonic()
        wait = 0.0 if code == RELOAD else child.next_wait(now)
        child.start_at = now + wait
        if code != RELOAD:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            log.warning("worker process %d %s; starting it again in %g s", child.index + 1, how, wait)

    def _signalled(self) -> None:
        """The first one lets the children finish; the second makes them give back what they run, and soon."""
        self._signals += 1
        if self._signals == 2:
            self._kill_at = time.monotonic() + KILL_AFTER
        self._killing = self._killing or self._signals > 2
        for child in self._children:
            child.signal(signal.SIGTERM if self._signals <= 2 else KILL)

    def _kill_late(self) -> None:
        if self._kill_at is not None and self._kill_at <= time.monotonic():
            self._kill_at, self._killing = None, True
            for child in self._children:
                child.signal(KILL)

    @contextlib.contextmanager
    def _handlers(self) -> Generator[None]:
        """Signals become events; only the main thread may ask for that, tests run elsewhere."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            self._queue.put(Signalled(number))

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def supervise(config: ProcessConfig, numbers: SupervisorNumbers | None = None) -> int:
    """Run the config's worker processes; returns the exit code."""
    return Supervisor(config, numbers=numbers).run()
