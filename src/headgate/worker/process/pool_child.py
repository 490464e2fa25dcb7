"""A process of a worker's pool: it loads the app once, and runs one attempt of a synchronous task after the other.

The main thread runs the tasks; another one reads what the worker says, so that `current_job().cancelled` becomes true
while the task runs, and so that this process ends with its worker, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import queue
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any

from headgate.engine.contract import Attempt, Failed, Outcome
from headgate.errors import ConfigError, HeadgateError
from headgate.hooks.context import CURRENT, JobContext
from headgate.worker.memory import memory_used
from headgate.worker.pool import POOL_PROCESS
from headgate.worker.pool.frames import (
    HEADER,
    AppSource,
    AskToEnd,
    Load,
    Loaded,
    NotLoaded,
    Progressed,
    Raised,
    Run,
    SpentUnits,
    ToProcess,
    ToWorker,
    ended,
    frame,
    length,
    read_by_process,
)
from headgate.worker.process.load_app import load_app
from headgate.worker.process.logs import configure_logs
from headgate.worker.process.pool_dependencies import DependenciesLoop
from headgate.worker.process.user_frames import user_frames
from headgate.worker.run.error_text import trace_of
from headgate.worker.run.outcome import raised, returned
from headgate.worker.run.running_attempt import RunningAttempt

PR_SET_PDEATHSIG = 1


class Channel:
    """The line to the worker."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()

    def send(self, record: ToWorker) -> None:
        """Say something; from any thread."""
        with (
            self._lock,
            contextlib.suppress(OSError),
        ):  # the worker is gone, and so is this process in a moment
            self._socket.sendall(frame(record))

    def receive(self) -> ToProcess | None:
        """What the worker says next; None once it has hung up."""
        header = self._read(HEADER)
        body = self._read(length(header)) if header else b""
        return read_by_process(body) if body else None

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._socket.recv(count - len(data))
            except OSError:
                return b""
            if not more:
                return b""
            data += more
        return data


class PoolChild:
    """The whole of the process, once the app is loaded."""

    def __init__(self, app: Any, channel: Channel) -> None:
        self._app = app
        self._channel = channel
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._current: JobContext | None = None
        self._dependencies = DependenciesLoop()

    def work(self) -> None:
        """Run attempts until the worker hangs up."""
        threading.Thread(target=self._listen, name="headgate-pool-listen", daemon=True).start()
        self._channel.send(Loaded())
        while (run := self._runs.get()) is not None:
            outcome, seen = self._run(run)
            self._channel.send(ended(outcome, seen, memory_used()))
        self._dependencies.close()

    def _listen(self) -> None:
        while (said := self._channel.receive()) is not None:
            match said:
                case Run():
                    self._runs.put(said)
                case AskToEnd():
                    if (current := self._current) is not None:
                        current.ask_to_end()
                case Load():
                    pass
        if self._current is not None:  # nothing waits for it any more, nor for what it has started
            os.killpg(os.getpid(), signal.SIGKILL)
        self._runs.put(None)

    def _run(self, said: Run) -> tuple[Outcome, Raised | None]:
        attempt = said.attempt
        task = self._app.tasks.get(attempt.task)
        if task is None:
            text = f"the app that was loaded in a process of the pool has no task {attempt.task!r}"
            return Failed(attempt.job, attempt.number, text), None
        sealing = task.hooks.enqueueing.sealing
        opened = sealing.open("args", attempt.args, attempt.task, attempt.job, attempt.tenant)
        args, kwargs = task.decode(opened)
        call = task.fn, args, kwargs
        context = JobContext(attempt, self._progress, said.worker, None, call, sealing, self._spent)
        run = RunningAttempt(attempt, task, context, sealing)
        self._current = context
        token = CURRENT.set(context)
        try:
            with task.hooks.carried.taken(said.carried):
                value = self._call(task, context, args, kwargs)
            outcome = returned(run, value)
        except BaseException as error:  # also SystemExit: a task must not end the process
            outcome = raised(run, error)
        finally:
            CURRENT.reset(token)
            self._current = None
        return outcome, None if run.error is None else _seen(run.error)

    def _call(self, task: Any, context: JobContext, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not task.dependencies:
            return task.fn(*args, **kwargs)
        plan = task.hooks.plan(task.name, task.dependencies)
        return self._dependencies.call(plan, context, task.fn, args, kwargs)

    def _progress(self, attempt: Attempt, value: str) -> None:
        self._channel.send(Progressed(value))

    def _spent(self, attempt: Attempt, limit: str, units: int) -> None:
        self._channel.send(SpentUnits(limit, units))


def _seen(error: BaseException) -> Raised:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        return Raised(name, str(error), trace_of(error))
    except Exception:  # an exception whose text cannot be made
        return Raised(name, "", "")


def load(source: AppSource) -> Any:
    """The app, from where the worker says that it is."""
    if source.main_file is None:
        return load_app(source.target, factory=source.factory, app_dir=source.app_dir)
    return _from_main_file(source.main_file, source.attribute)


def _from_main_file(file: str, attribute: str) -> Any:
    """Load a program's main file under another name, so that it does not do what it does when it is run."""
    spec = importlib.util.spec_from_file_location("__mp_main__", file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file} is no Python source: keep the app in a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules["__mp_main__"] = sys.modules["__main__"] = module
    spec.loader.exec_module(module)
    return getattr(module, attribute)


def die_with(parent: int) -> None:
    """Be killed when the worker's process is gone, even while a task holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Signals to a whole group of processes are the worker's business: it lets its jobs finish. Not SIG_IGN, which
    programs that a task starts would inherit."""


def main() -> None:
    """The entry of a process of the pool."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    channel = Channel(sock)
    plan = channel.receive()
    if not isinstance(plan, Load):
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    die_with(plan.parent)
    os.environ[POOL_PROCESS] = str(os.getpid())
    sys.path[:], sys.argv[:] = plan.path, plan.argv
    try:
        app = load(plan.source)
        if plan.source.logs is not None:
            level, json, config = plan.source.logs
            configure_logs(level, json=json, config=config)
    except HeadgateError as error:
        channel.send(NotLoaded(str(error)))
    except BaseException as error:
        channel.send(NotLoaded(user_frames(error)))
    else:
        PoolChild(app, channel).work()


if __name__ == "__main__":
    main()
