"""Suites stand side by side: what two of them use lies in tests/support, and tests/README.md names every suite."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.plain_pytest import PYTEST

TESTS = Path(__file__).parents[1]
SUITES = {folder.name for folder in TESTS.iterdir() if any(folder.glob("test_*.py"))}
IMPORTED = re.compile(r"^\s*(?:from|import) tests\.(\w+)", re.MULTILINE)


def test_no_suite_imports_from_another():
    wrong = [
        f"{file.relative_to(TESTS)} imports from tests.{name}"
        for file in TESTS.glob("*/**/*.py")
        for name in IMPORTED.findall(file.read_text("utf-8"))
        if name not in (file.relative_to(TESTS).parts[0], "support")
    ]
    assert not wrong


def test_only_the_conftest_lies_beside_the_suites():
    assert [file.name for file in TESTS.glob("*.py")] == ["conftest.py"]


def test_the_table_of_suites_names_each():
    rows = re.findall(r"^\| `(\w+)/`", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(SUITES)


@pytest.mark.parametrize(("chosen", "count"), [("postgres", 13), ("not postgres", 0)])
def test_markers_are_there_when_tests_are_chosen_by_them(chosen: str, count: int):
    file = TESTS / "postgres" / "test_order.py"
    command = [*PYTEST, "--collect-only", "-m", chosen, str(file)]
    listed = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False).stdout
    assert listed.count("::") == count
