"""The other side of a measurement: a process that runs one workload and prints its figures as one JSON line.

Runs in the peers' environments too, so this module and everything it imports is standard library only.
"""

import asyncio
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from bench.contender import Contender
from bench.figures import Figures
from bench.loops import loop_factory
from bench.workloads import WORKLOADS

Workload = Callable[..., Figures | Coroutine[Any, Any, Figures]]


def main(distribution: str, kind: type[Contender], own: Mapping[str, Workload] | None = None) -> None:
    """Run the workload named on the command line with the parameters given there as JSON.

    `own` are workloads that only this system has.
    """
    answer = _take_stdout()
    name, text = sys.argv[1:]
    params = json.loads(text)
    params["scratch"] = Path(params["scratch"])
    workload = own[name] if own and name in own else functools.partial(WORKLOADS[name], kind)
    figures = _run(workload, params)
    with answer:
        answer.write(json.dumps(figures | {"version": version(distribution)}) + "\n")
    # Peers leave threads behind that have no way to be stopped.
    os._exit(0)


def _take_stdout() -> Any:
    """Keep standard output for the answer: banners and logs go to standard error."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answer


def _run(workload: Workload, params: dict[str, Any]) -> Figures:
    work = workload(**params)
    if not inspect.iscoroutine(work):
        return cast("Figures", work)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)
