"""Tasks for processes of a pool, which load this module anew. They tell which process they are by a file."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from headgate import (
    App,
    CancelJob,
    Depends,
    FailJob,
    JobContext,
    Retry,
    RetryLater,
    Snooze,
    Throttled,
    current_job,
)

app = App("memory://")
AT_ONCE = Retry(attempts=2, delay=0, jitter=0)


def note(path: str) -> None:
    """Tell which process this is; a file is there whole or not at all."""
    Path(f"{path}.new").write_text(str(os.getpid()))
    os.rename(f"{path}.new", path)


locale: ContextVar[str] = ContextVar("locale", default="none")


@contextmanager
def speaking(texts: Mapping[str, str]) -> Generator[None]:
    token = locale.set(texts["locale"])
    yield
    locale.reset(token)


app.carry("locale", give=lambda: {"locale": locale.get()}, take=speaking)


@app.task(run_in="process")
def speaks() -> str:
    return locale.get()


@app.task(run_in="process")
def where() -> int:
    return os.getpid()


@app.task
def in_thread() -> int:
    return os.getpid()


@app.task
async def on_loop() -> int:
    return os.getpid()


@app.task(run_in="process", max_concurrent=1)
def spin(path: str) -> None:
    note(path)
    while True:
        pass


@app.task(run_in="process", max_concurrent=1)
def hold_interpreter(path: str) -> None:
    """Not even another thread of its process gets a turn."""
    note(path)
    ctypes.PyDLL(None).sleep(600)


@app.task(run_in="process")
def with_company(path: str) -> None:
    """Start a program, and wait for it."""
    import subprocess

    other = subprocess.Popen(["sleep", "600"])
    Path(f"{path}.other").write_text(str(other.pid))
    note(path)
    other.wait()


@app.task(run_in="process", limits=[])
def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@app.task(run_in="process")
def until_asked(path: str) -> str:
    note(path)
    while not current_job().cancelled:
        time.sleep(0.01)
    current_job().raise_if_cancelled()
    return "not reached"


@app.task(run_in="process", retry=AT_ONCE)
def die(code: int) -> None:
    os._exit(code)


@app.task(run_in="process", retry=AT_ONCE)
def knows() -> dict[str, Any]:
    job = current_job()
    if job.attempt == 1:
        job.progress({"at": 1})
        raise RetryLater(0)
    return {
        "id": job.id,
        "attempt": job.attempt,
        "task": job.task,
        "metadata": job.metadata,
        "previous": job.previous_progress,
        "worker": job.worker,
        "state": job.state,
        "args": dict(job.args),
    }


@app.task(run_in="process")
def reports(path: str) -> None:
    current_job().progress({"step": 1})
    note(path)
    while not current_job().cancelled:
        time.sleep(0.01)


@app.task(run_in="process", retry=AT_ONCE)
def ends(how: str) -> Any:
    match how:
        case "fail":
            raise FailJob("it is no use")
        case "cancel":
            raise CancelJob("not wanted")
        case "snooze":
            raise Snooze(3600)
        case "throttled":
            current_job().spent("tokens", 7)
            raise Throttled(3600, limit="tokens")
        case "exit":
            raise SystemExit(3)
        case "object":
            return object()
        case "large":
            return "x" * 900_000
        case _:
            raise ValueError(f"what is {how}?")


opened = list[str]()


def attempt_file(job: JobContext) -> Iterator[str]:
    opened.append("open")
    try:
        yield f"file of {job.id}"
    finally:
        opened.append("close")


async def counter() -> AsyncIterator[list[int]]:
    yield [0]


@app.task(run_in="process")
def depends(
    one: int,
    file: str = Depends(attempt_file),
    count: list[int] = Depends(counter, per="process"),
) -> list[Any]:
    count[0] += 1
    return [one, file, count[0], list(opened)]


@app.task(run_in="process")
def depends_and_fails(file: str = Depends(attempt_file)) -> None:
    raise SystemExit("not even this ends the process")
