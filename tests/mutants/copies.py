"""Copies of the source tree and of the tests, in which mutants are made."""

from __future__ import annotations

import compileall
import os
import queue
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.mutants.mutant import ROOT, SOURCE
from tests.support import postgres_binaries

MEMORY = Path("/dev/shm")
ROOMY = 4 << 30
"""Bytes: the data of a PostgreSQL server are copied for each run of tests, 40 MB."""


@contextmanager
def copies(number: int) -> Generator[queue.SimpleQueue[Path]]:
    """Copies that may change meanwhile. Compiled files are checked by content: a mutant may be as long and as old as
    what it replaces."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    postgres_binaries.begin_run()  # an empty server's data are made once for all runs of tests
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-", dir=_place()) as folder:
        for each in range(number):
            copy = Path(folder) / str(each)
            for source in (SOURCE, ROOT / "tests"):
                shutil.copytree(source, copy / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(ROOT / "pyproject.toml", copy)
            for name in ("bench", "contrib", "docs", "examples", "README.md"):
                (copy / name).symlink_to(ROOT / name)
            compileall.compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            copy.chmod(0o755)
            free.put(copy)
        Path(folder).chmod(0o755)  # a server that does not run as root keeps its data in there
        yield free


def environment(copy: Path) -> dict[str, str]:
    """In which tests run on a copy, with a folder of their own for what is temporary."""
    place = tempfile.mkdtemp(prefix="temporary-", dir=copy)
    Path(place).chmod(0o1777)
    return {
        **os.environ,
        "PYTHONPATH": str(copy),
        "COLUMNS": "400",
        "TMPDIR": place,
        "PYTEST_DEBUG_TEMPROOT": place,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def _place() -> Path | None:
    """In memory where there is room: stores of tests are made and deleted by the thousand."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOMY else None
