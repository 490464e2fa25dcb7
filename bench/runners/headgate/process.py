"""A worker process as users start it: `headgate worker module:app`."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from headgate import JobHandle

APP = "bench.runners.headgate.served:app"
READY_SECONDS = 30
STOP_SECONDS = 10


@contextlib.contextmanager
def worker_process(url: str) -> Generator[subprocess.Popen[bytes]]:
    """A worker on the store at `url`, for as long as it is needed."""
    command = [str(Path(sys.executable).with_name("headgate")), "worker", APP]
    surroundings = {**os.environ, "HEADGATE_URL": url, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, env=surroundings, stdout=sys.stderr) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


async def until_ready(process: subprocess.Popen[bytes], job: JobHandle[Any]) -> None:
    """Wait until the worker has run a first job; give up when it has ended or takes far too long."""
    for _ in range(READY_SECONDS):
        with contextlib.suppress(TimeoutError):
            await job.result(timeout=1)
            return
        if process.poll() is not None:
            break
    raise SystemExit(
        "`headgate worker` ended before its first job" if process.poll() else "no worker got ready"
    )
