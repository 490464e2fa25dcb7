"""The clock of a server, for a test to move: a library that the server preloads, and a file with the shift.

It is compiled when it is first needed; where there is no C compiler, or no glibc, `available()` says so.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support.postgres_binaries import temporary_root

SOURCE = Path(__file__).with_suffix(".c")


def available() -> bool:
    """Whether a server's clock can be moved here."""
    return sys.platform == "linux" and shutil.which("cc") is not None


class ServerClock:
    """`environment` is what the server is started with; `jump` moves its clock at once."""

    def __init__(self) -> None:
        descriptor, path = tempfile.mkstemp(prefix="headgate-clock-", dir=temporary_root())
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)
        self._file = Path(path)
        self.jump(0)
        self.environment = {"LD_PRELOAD": str(_library()), "SERVER_CLOCK_FILE": path}

    def jump(self, seconds: float) -> None:
        """From now on the server's clock is so far ahead of the machine's."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))

    def close(self) -> None:
        self._file.unlink()


@cache
def _library() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headgate-clock-", dir=temporary_root()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)  # PostgreSQL runs as another user
    library = folder / "server_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    return library
