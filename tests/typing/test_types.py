"""What type checkers say about a program that uses Headgate."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CODE = HERE / "user_code.py"
MARK = re.compile(r"  # type: ignore\[[^]]*\]")


def mypy(file: Path, cache: Path) -> list[str]:
    """The errors of mypy --strict, one a line."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        f"--cache-dir={cache}",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent)
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def pyright(file: Path) -> list[str]:
    """The errors of pyright, one a line."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent)
    return [line for line in done.stdout.splitlines() if " error:" in line]


@pytest.mark.slow(20)
@pytest.mark.timeout(300)
def test_type_checkers_find_the_mistakes_that_are_marked_and_no_other(tmp_path: Path):
    assert mypy(CODE, tmp_path / "cache") == []
    assert pyright(CODE) == []
    bare = tmp_path / "bare.py"
    text, marks = MARK.subn("", CODE.read_text())
    bare.write_text(text)
    assert len(mypy(bare, tmp_path / "cache")) == marks
    assert len(pyright(bare)) == marks
