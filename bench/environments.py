"""A virtual environment for each peer, created when it is first needed and again when its pins change."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from bench.systems import System

ROOT = Path(__file__).parent / ".venvs"
INSTALL_SECONDS = 600


class EnvironmentFailed(Exception):
    """The environment of a peer could not be made; the message is the end of what the installer said."""


def python_of(system: System) -> Path:
    """The interpreter that runs `system`; Headgate's is the one that runs this."""
    if system.environment is None:
        return Path(sys.executable)
    home = ROOT / system.environment
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _stamp(home) != _wanted(system) or not python.exists():
        _create(home, python, system)
    return python


def is_ready(system: System) -> bool:
    """True if asking for its interpreter will not install anything."""
    return system.environment is None or _stamp(ROOT / system.environment) == _wanted(system)


def _wanted(system: System) -> str:
    return "\n".join((sys.version, *system.pins))


def _stamp(home: Path) -> str | None:
    stamp = home / "pins.txt"
    return stamp.read_text() if stamp.exists() else None


def _create(home: Path, python: Path, system: System) -> None:
    """The stamp is written last: an interrupted installation is started afresh."""
    venv.create(home, with_pip=False, clear=True)
    _install(python, system)
    (home / "pins.txt").write_text(_wanted(system))


def _install(python: Path, system: System) -> None:
    quiet = ["--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *quiet, *system.pins]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(
            f"pip needed more than {INSTALL_SECONDS} s for {', '.join(system.pins)}"
        ) from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed without a word"]
        raise EnvironmentFailed(last[0])
