"""Every block of code in README and docs does what the page says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.docs_pages import PAGES, Block, blocks, name_of
from tests.support.docs_running import check_output, run_page, with_output
from tests.support.docs_shell import check_headgate, commands, make_targets

WITH_SERVER = ["docs/guides/postgresql.md", "docs/guides/django.md"]
"""Run by the tests of the engine, or the room, that they are about."""
WITH_PYTHON = [
    page for page in PAGES if list(with_output(list(blocks(page)))) and name_of(page) not in WITH_SERVER
]
WITH_SHELL = [page for page in PAGES if any(block.language == "sh" for block in blocks(page))]
MOST_NOT_RUN = 6


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_every_python_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_URL", raising=False)
    run_page(list(blocks(page)), tmp_path)
    asyncio.set_event_loop(None)


@pytest.mark.parametrize("page", WITH_SHELL, ids=name_of)
def test_every_shell_command_exists(page: Path):
    for block in blocks(page):
        for words in commands(block) if block.language == "sh" else ():
            if words[0] == "headgate":
                check_headgate(words[1:])
            elif words[0] == "make":
                assert set(words[1:]) <= make_targets(), f"{block.where}: {words}"


def test_blocks_that_are_not_run_are_few_and_say_why():
    marked = [block for page in PAGES for block in blocks(page) if block.not_run is not None]
    assert len(marked) <= MOST_NOT_RUN, [block.where for block in marked]


def test_every_block_has_a_language_that_is_looked_after():
    known = {"python", "sh", "text", "json", "ini", "sql", "yaml"}
    strange = [block.where for page in PAGES for block in blocks(page) if block.language not in known]
    assert not strange


def _block(text: str, language: str = "python") -> Block:
    return Block(PAGES[0], 1, language, text, None, False)


def test_a_block_that_prints_something_else_is_noticed():
    with pytest.raises(AssertionError, match="prints something else"):
        check_output(_block("print(1)"), "1\n", "2")


@pytest.mark.parametrize("line", ["headgate nosuch", "headgate jobs --nosuch", "headgate cancel --nosuch 1"])
def test_a_command_that_does_not_exist_is_noticed(line: str):
    (words,) = commands(_block(line, "sh"))
    with pytest.raises(Exception, match="nosuch"):
        check_headgate(words[1:])
