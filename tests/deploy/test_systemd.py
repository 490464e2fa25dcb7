"""The units: what they run exists, and systemd gives it the time that it needs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.exits import USAGE
from tests.deploy.commands import grace_of
from tests.support.docs_pages import ROOT
from tests.support.docs_shell import check_headgate

UNITS = sorted((ROOT / "contrib" / "systemd").glob("*.service"))
Unit = dict[str, list[tuple[str, str]]]


def read(path: Path) -> Unit:
    """Sections, and what stands in each, in order: a key may come more than once."""
    found: Unit = {}
    for line in path.read_text("utf-8").splitlines():
        if section := re.fullmatch(r"\[(\w+)\]", line):
            found[section[1]] = []
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            list(found.values())[-1].append((key, value))
    return found


def value(unit: Unit, key: str) -> str:
    (found,) = [value for name, value in unit["Service"] if name == key]
    return found


def words(unit: Unit) -> list[str]:
    """The command as it is run for the queue `email`."""
    variables = dict(each.split("=", 1) for key, each in unit["Service"] if key == "Environment")
    text = re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], value(unit, "ExecStart"))
    return shlex.split(text.replace("%i", "email"))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_exists(path: Path) -> None:
    program, *rest = words(read(path))
    assert Path(program).name == "headgate"
    assert program.startswith(value(read(path), "WorkingDirectory"))
    check_headgate(rest)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_stops_as_a_worker_wants_to_be_stopped(path: Path) -> None:
    unit = read(path)
    assert value(unit, "KillMode") == "mixed"
    assert float(value(unit, "TimeoutStopSec")) >= grace_of(words(unit)) + 5


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_started_again_unless_its_command_is_wrong(path: Path) -> None:
    assert value(read(path), "Restart") == "on-failure"
    assert value(read(path), "RestartPreventExitStatus") == str(USAGE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_a_unit(path: Path, tmp_path: Path) -> None:
    program = words(read(path))[0]
    unit = tmp_path / path.name.replace("@", "@email")
    text = path.read_text("utf-8").replace(program, sys.executable).replace("User=myproject", "User=root")
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if path.stem.rstrip("@") in line]
    assert not ours


def test_there_are_units() -> None:
    assert [path.name for path in UNITS] == ["headgate-worker.service", "headgate-worker@.service"]
