"""The guide is followed from its first line to its last, in an empty folder, and does what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.django.project import SECONDS, Project
from tests.support.docs_pages import ROOT, Block, blocks
from tests.support.docs_running import check_output

GUIDE = list(blocks(ROOT / "docs" / "guides" / "django.md"))


@pytest.mark.slow(15)
def test_the_guide_leads_to_a_project_that_works(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    project = Project(folder, sys.executable, "sqlite")
    with ExitStack() as workers:
        for block, expected in with_text():
            if block.language == "python":
                write(block, folder)
                continue
            printed = "".join(run(line, project, workers) for line in block.text.splitlines())
            if expected is not None:
                check_output(block, printed, expected.text)


def with_text() -> Iterator[tuple[Block, Block | None]]:
    """Files and commands, each with the output that follows it."""
    for block, after in zip(GUIDE, [*GUIDE[1:], None], strict=True):
        if block.language != "text":
            yield block, after if after and after.follows and after.language == "text" else None


def write(block: Block, folder: Path) -> None:
    found = re.match(r"# ([\w/]+\.py)(, at the end)?$", block.text.partition("\n")[0])
    assert found, f"{block.where} says no file"
    path = folder / found[1]
    before = path.read_text("utf-8") if found[2] else ""
    path.write_text(f"{before}\n{block.text}\n", "utf-8")


def run(line: str, project: Project, workers: ExitStack) -> str:
    """What a command prints. A worker stays at work until the end of the page; nothing is installed."""
    if line.startswith("pip "):
        return ""
    command = re.sub(r"^python ", f"{shlex.quote(project.python)} -W error ", line)
    if " headgate worker" in line:
        workers.enter_context(project.worker(*shlex.split(command)))
        return ""
    done = subprocess.run(
        command,
        shell=True,
        cwd=project.folder,
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0 or "2>/dev/null" in line, line
    return done.stdout
