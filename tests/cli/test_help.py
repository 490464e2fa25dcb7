"""Help, versions, and what happens before a command runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from headgate import __version__
from headgate.cli import entry
from tests.support.command_line import COMMAND, Headgate

COMMANDS = [
    "worker",
    "enqueue",
    "import",
    "jobs",
    "job",
    "explain",
    "failures",
    "queues",
    "limits",
    "workers",
    "top",
    "sql",
    "cancel",
    "restart",
    "expedite",
    "delete",
    "pause",
    "resume",
    "audit",
    "migrate",
    "demo",
]


def test_help_lists_every_command_and_the_exit_codes(headgate: Headgate) -> None:
    help = headgate("--help").out
    for name in [*COMMANDS, "limit", "bench"]:
        assert f" {name} " in help
    for line in (
        "0  done",
        "1  what was asked for failed",
        "2  the command is wrong",
        "3  the store is unavail",
    ):
        assert line in help


@pytest.mark.parametrize("command", [*COMMANDS, "limit set", "limit clear"])
def test_each_command_s_help_shows_an_example(headgate: Headgate, command: str) -> None:
    outcome = headgate(*command.split(), "--help")
    assert outcome.code == 0
    assert f" headgate {command}" in outcome.out.partition("Usage:")[2].partition("\n")[2]


def test_help_is_free_of_control_characters_when_piped(headgate: Headgate) -> None:
    text = headgate("--help").out + headgate("cancel", "--help").out
    assert text.replace("\n", "").isprintable()


def test_the_package_is_the_command(headgate: Headgate) -> None:
    command = [sys.executable, "-m", "headgate", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=headgate.environment(), check=True)
    assert done.stdout == f"headgate {__version__}\n"


def test_the_version_is_shown(headgate: Headgate) -> None:
    assert headgate("--version").out == f"headgate {__version__}\n"


def test_an_unknown_command_is_a_usage_error(headgate: Headgate) -> None:
    outcome = headgate("frobnicate")
    assert outcome.code == 2
    assert "No such command" in outcome.err


def test_an_unknown_option_is_a_usage_error(headgate: Headgate) -> None:
    assert headgate("jobs", "--frobnicate").code == 2


def test_help_takes_little_time_and_loads_no_engine() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, check=True, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert b"Usage" in done.stdout
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 1.0, "seconds of CPU; about 0.3 on a machine that is not busy"
    code = (
        "import sys; from headgate.cli.program import program; "
        "print([m for m in sys.modules if m.startswith(('apsw', 'headgate.engine', 'headgate.app.app', 'rich.live'))])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_without_its_packages_the_command_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as exit:
        entry.main()
    assert exit.value.code == 2
    assert capsys.readouterr().err == entry.MISSING + "\n"
    assert "pip install 'headgate[cli]'" in entry.MISSING
