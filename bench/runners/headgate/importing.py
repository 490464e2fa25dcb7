"""How long an import takes. Names load when first used, so `App`, which every program uses, is part of it."""

import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import Figures

PROGRAM = """
import time
start = time.perf_counter()
from headgate import App
print(time.perf_counter() - start)
"""


def import_time(scratch: Path, url: str, samples: int) -> Figures:
    """The median of fresh processes, after one that may have to compile."""
    _once()
    return {"milliseconds": statistics.median(_once() for _ in range(samples)) * 1000}


def _once() -> float:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return float(done.stdout)
