"""Run one workload on one system, in a process of its own, on files of its own, within a time of its own."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.engines import Engine
from bench.environments import python_of
from bench.figures import Figures
from bench.systems import System

REPOSITORY = Path(__file__).parent.parent


class MeasurementFailed(Exception):
    """The process failed, said nothing, or took too long; the message is fit for the table."""


def measure(
    system: System, workload: str, params: Mapping[str, Any], engine: Engine, url: str | None, timeout: float
) -> Figures:
    """The figures of one run. `url` is a store for Headgate to use instead of a fresh one."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        given = {**params, **system.settings, "scratch": name}
        with contextlib.ExitStack() as stack:
            ours = system.environment is None
            given["url"] = (url if ours else None) or stack.enter_context(engine.fresh(scratch))
            command = [str(python_of(system)), "-m", system.module, workload, json.dumps(given)]
            return _figures(_run(command, timeout))


def _run(command: list[str], timeout: float) -> str:
    """What the process printed. It gets its own process group, so that its children end with it."""
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=_surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise MeasurementFailed(f"not done after {timeout:g} s") from None
        finally:
            _end_group(process.pid)
    if process.returncode != 0:
        raise MeasurementFailed(_last_line(err) or f"ended with status {process.returncode}")
    return out


def _surroundings() -> dict[str, str]:
    """Headgate runs from its sources here: they are kept compiled, as those of installed packages are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _figures(out: str) -> Figures:
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise MeasurementFailed("no figures were printed") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
