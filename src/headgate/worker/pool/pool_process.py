"""One process of a pool, as its worker sees it. All of it happens on the event loop, but for waiting for its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

from headgate.engine.contract import Attempt
from headgate.errors import ProcessDied
from headgate.hooks.context import ProgressSink, SpentSink
from headgate.worker.pool.frames import (
    HEADER,
    AppSource,
    AskToEnd,
    Ended,
    Load,
    Loaded,
    NotLoaded,
    Progressed,
    Run,
    SpentUnits,
    frame,
    length,
    read_by_worker,
)

PROGRAM = "headgate.worker.process.pool_child"

LOADING = 60.0
"""Seconds that a process has to load the app."""


class PoolProcess:
    """Made where a new process is needed. It runs one attempt at a time.

    `ended` has its exit code once it is really gone: until then whatever it ran may still be at work.
    """

    def __init__(self, source: AppSource, gone: Callable[[PoolProcess], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self.killed = False
        """Whether it was killed on purpose."""
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._answer: asyncio.Future[Ended] | None = None
        self._attempt: Attempt | None = None
        self._sinks: tuple[ProgressSink, SpentSink] | None = None
        self._writer: asyncio.StreamWriter | None = None
        here, there = socket.socketpair()
        with there:
            # A group of its own: it is killed together with what it has started, and Ctrl-C does not reach it.
            self._popen = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                start_new_session=True,
            )
        threading.Thread(target=self._wait, name=f"headgate-pool-{self.pid}", daemon=True).start()
        load = Load(source, sys.path, sys.argv, os.getpid())
        self._talking = self._loop.create_task(self._talk(here, load))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it can be given an attempt."""
        return not self.ended.done() and not self.killed and self._popen.poll() is None

    async def loaded(self) -> None:
        """Wait until it can run attempts; raises ProcessDied if it cannot load the app."""
        try:
            async with asyncio.timeout(LOADING):
                await asyncio.shield(self._loaded)
        except TimeoutError:
            self.kill()
            raise ProcessDied(f"a process of the pool did not load the app within {LOADING:g} s") from None

    def run(
        self,
        attempt: Attempt,
        worker: str,
        progress: ProgressSink,
        spent: SpentSink,
        carried: Mapping[str, Mapping[str, str]],
    ) -> asyncio.Future[Ended]:
        """Run an attempt. The future, not to be cancelled, has its end, or ProcessDied once the process is gone."""
        answer = self._answer = self._loop.create_future()
        self._attempt, self._sinks = attempt, (progress, spent)
        self._send(frame(Run(attempt, worker, carried)))
        return answer

    def runs(self, attempt: Attempt) -> bool:
        """Whether it runs this attempt now."""
        return self._attempt is attempt and not self.ended.done()

    def ask_to_end(self) -> None:
        """Let `current_job().cancelled` be true."""
        self._send(frame(AskToEnd()))

    def kill(self) -> None:
        """End it at once, with what it has started."""
        self.killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let it end by itself: it closes what it keeps."""
        if self._writer is not None:
            self._writer.close()

    def _send(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def _talk(self, sock: socket.socket, load: Load) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=sock)
        self._send(frame(load))
        with contextlib.suppress(OSError, EOFError):  # its end is told by what waits for it
            while True:
                header = await reader.readexactly(HEADER)
                self._hear(await reader.readexactly(length(header)))

    def _hear(self, body: bytes) -> None:
        match read_by_worker(body):
            case Progressed(value=value):
                if self._attempt is not None and self._sinks is not None:
                    self._sinks[0](self._attempt, value)
            case SpentUnits(limit=limit, units=units):
                if self._attempt is not None and self._sinks is not None:
                    self._sinks[1](self._attempt, limit, units)
            case Ended() as ended:
                answer, self._answer, self._attempt, self._sinks = self._answer, None, None, None
                if answer is not None:
                    answer.set_result(ended)
            case Loaded():
                self._loaded.set_result(None)
            case NotLoaded(error=error):
                self._loaded.set_exception(ProcessDied(f"a process of the pool cannot load the app: {error}"))
                self._loaded.exception()  # seen, also where nothing waits for it any more

    def _wait(self) -> None:
        code = self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it any more
            self._loop.call_soon_threadsafe(self._end, code)

    def _end(self, code: int) -> None:
        """The process is gone. What it said last may still be on its way; the end of the stream comes behind that."""
        self._loop.create_task(self._end_behind_its_last_words(code))

    async def _end_behind_its_last_words(self, code: int) -> None:
        await asyncio.wait([self._talking], timeout=1)
        self._talking.cancel()
        if self._writer is not None:
            self._writer.close()
        died = ProcessDied(_how(code))
        for future in (self._loaded, self._answer):
            if future is not None and not future.done():
                future.set_exception(died)
                future.exception()
        self.ended.set_result(code)
        self._gone(self)


def _how(code: int) -> str:
    if code >= 0:
        return f"the process that ran the attempt ended with exit code {code}"
    try:
        name = f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        name = f"signal {-code}"
    memory = "; the machine may be out of memory" if code == -signal.SIGKILL else ""
    return f"the process that ran the attempt was killed by {name}{memory}"
