"""Libraries of C that a server preloads, so that a test can change what the server sees of the machine.

They are compiled when they are first needed; where there is no C compiler, or no glibc, `available()` says so.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support.postgres_binaries import temporary_root


def available() -> bool:
    """Whether a server can be deceived here."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@cache
def library(source: str) -> Path:
    """The library, compiled from a file beside this one."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-preloaded-", dir=temporary_root()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)  # PostgreSQL runs as another user
    made = (folder / source).with_suffix(".so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", made, Path(__file__).with_name(source)], check=True
    )
    return made


def shared_file(content: bytes) -> Path:
    """What a test writes and the library reads, at any moment; the server's user may read it."""
    descriptor, path = tempfile.mkstemp(prefix="headgate-preloaded-", dir=temporary_root())
    os.fchmod(descriptor, 0o644)
    os.write(descriptor, content)
    os.close(descriptor)
    return Path(path)
