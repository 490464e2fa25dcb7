"""The command line on a store of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from tests.support.command_line import Headgate


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """Nine tenths of a command in this process would be the making of all commands, which is the same each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture
def headgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Headgate:
    """The command line on a store that does not exist yet."""
    made = Headgate(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_URL", made.url)
    for name in ("NO_COLOR", "FORCE_COLOR", "TERMINAL_WIDTH", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def store(headgate: Headgate) -> Iterator[Headgate]:
    """The command line on a store that exists; audited at the end."""
    assert headgate("migrate").code == 0
    yield headgate
    assert headgate("audit", "--json").document == {"ok": True, "problems": [], "repaired": []}
