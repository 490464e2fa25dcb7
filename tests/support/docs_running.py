"""Runs the Python blocks of one page, one after the other, in one namespace.

- `await` may stand at the top of a block, as in `python -m asyncio`.
- A block whose first line is a file name (`# jobs.py`) is that file: it is written to the page's folder and run as a
  program, a `test_*.py` by pytest. Later blocks may import it.
- A `text` block directly behind a Python block is what that prints; `…` stands for anything.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from headgate import App
from tests.support.docs_pages import Block
from tests.support.plain_pytest import PYTEST

PROGRAM_SECONDS = 60


def run_page(found: Sequence[Block], folder: Path) -> None:
    """Run the blocks of a page; every store they used must be in order afterwards."""
    names: dict[str, Any] = {"__name__": "page"}
    with _on_path(folder), asyncio.Runner() as runner:
        try:
            for block, expected in with_output(found):
                printed = _run(block, names, folder, runner)
                if expected is not None:
                    check_output(block, printed, expected.text)
        finally:
            problems = _close(names, runner)
    assert not problems, f"{found[0].page.name} leaves a store behind that does not fit together: {problems}"


def with_output(found: Sequence[Block]) -> Iterator[tuple[Block, Block | None]]:
    """The Python blocks that are to be run, each with the output that follows it."""
    for number, block in enumerate(found):
        if block.language == "python" and block.not_run is None:
            after = found[number + 1] if number + 1 < len(found) else None
            yield block, after if after and after.follows and after.language == "text" else None


def check_output(block: Block, printed: str, expected: str) -> None:
    """Refuse output that is not what the page says; `…` there stands for anything."""
    pattern = re.escape(expected.strip()).replace("…", ".*?")
    if not re.fullmatch(pattern, printed.strip(), re.DOTALL):
        raise AssertionError(
            f"{block.where} prints something else than the page says\n--- printed\n{printed.strip()}"
            f"\n--- the page says\n{expected.strip()}"
        )


def _run(block: Block, names: dict[str, Any], folder: Path, runner: asyncio.Runner) -> str:
    if block.file is not None:
        return _run_file(block, block.file, folder)
    printed = io.StringIO()
    # Empty lines before the code make line numbers in tracebacks those of the page.
    source = "\n" * block.line + block.text
    try:
        with contextlib.redirect_stdout(printed):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(source, str(block.page), "exec", flags=flags, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, names))
            else:
                exec(code, names)
    except Exception as error:
        error.add_note(f"in the block at {block.where}")
        raise
    return printed.getvalue()


def _run_file(block: Block, name: str, folder: Path) -> str:
    (folder / name).write_text(block.text + "\n", "utf-8")
    by = PYTEST if name.startswith("test_") else [sys.executable]
    done = subprocess.run(
        [*by, name],
        cwd=folder, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.where} as {name} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def _close(names: dict[str, Any], runner: asyncio.Runner) -> list[str]:
    problems: list[str] = []
    for app in {id(value): value for value in names.values() if isinstance(value, App)}.values():
        report = runner.run(app.audit())
        problems += report.problems
        runner.run(app.close())
    return problems


@contextlib.contextmanager
def _on_path(folder: Path) -> Generator[None]:
    """Modules that a page writes can be imported, and are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]
