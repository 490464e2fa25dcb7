"""How long an import takes. Names load when first used, so what every program uses, `App`, is shown beside it."""

import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import Figures

PROGRAM = """
import time
start = time.perf_counter()
import headgate
imported = time.perf_counter()
from headgate import App
print(imported - start, time.perf_counter() - start)
"""


def import_time(scratch: Path, url: str, samples: int) -> Figures:
    """The medians of fresh processes, after one that may have to compile."""
    _once()
    package, app = (
        statistics.median(times) * 1000 for times in zip(*(_once() for _ in range(samples)), strict=True)
    )
    return {"milliseconds": package, "with_app": app}


def _once() -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    package, app = map(float, done.stdout.split())
    return package, app
