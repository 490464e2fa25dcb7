"""What a worker process costs that has nothing to do. Reads /proc, so it needs Linux."""

import asyncio
import os
import time
from pathlib import Path

from bench.figures import Figures
from bench.runners.headgate.process import until_ready, worker_process

SETTLE_SECONDS = 2
PROC = Path("/proc")


async def idle(scratch: Path, url: str, seconds: float) -> Figures:
    """Memory in MB, and per cent of a core over `seconds`, of the worker and all of its child processes."""
    os.environ["HEADGATE_URL"] = url
    from bench.runners.headgate.served import app, started

    with worker_process(url) as process:
        async with app:
            await until_ready(process, await started.enqueue(0))
        await asyncio.sleep(SETTLE_SECONDS)
        pids = _tree(process.pid)
        start, before = time.perf_counter(), _cpu_seconds(pids)
        await asyncio.sleep(seconds)
        share = (_cpu_seconds(pids) - before) / (time.perf_counter() - start)
        return {"rss": sum(_rss_mb(each) for each in pids), "cpu": share * 100, "processes": len(pids)}


def _tree(pid: int) -> list[int]:
    children = (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        # The second field is the program's name in parentheses and may contain spaces.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
