"""On a real terminal: colours, questions, bars; and none of it elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.support.command_line import COMMAND, Headgate

if sys.platform == "win32":
    pytest.skip("needs a pseudo-terminal", allow_module_level=True)

import pty


def on_terminal(headgate: Headgate, *words: str, keys: str = "", **more: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; returns its exit code and all that it wrote there."""
    ours, theirs = pty.openpty()
    environment = headgate.environment(**{"COLUMNS": "120"} | more)
    pipes: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen([*COMMAND, *words], cwd=headgate.folder, env=environment, **pipes)
    os.close(theirs)
    os.write(ours, keys.encode())
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:  # how a pseudo-terminal says that the other side is closed
        pass
    os.close(ours)
    return process.wait(30), written.decode()


def test_a_terminal_gets_colours(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    _, written = on_terminal(store, "jobs")
    assert "\x1b[36mready" in written


@pytest.mark.parametrize("columns", ["80", "40"])
def test_an_id_is_never_broken(store: Headgate, columns: str) -> None:
    ids = [store.enqueue("fail"), store.enqueue("send", "to=ada"), store.enqueue("send", "to=bob")]
    store.work()
    _, written = on_terminal(store, "jobs", NO_COLOR="1", COLUMNS=columns)
    lines = written.splitlines()
    assert all(any(line.startswith(id) for line in lines) for id in ids)
    assert "succeeded" in written
    assert "ValueErro" in written
    if columns == "80":
        assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 80 for line in lines)


def test_no_color_is_respected(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    _, written = on_terminal(store, "jobs", NO_COLOR="1")
    assert "ready" in written
    assert "\x1b[36m" not in written


def test_a_pipe_gets_no_control_characters(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    out = store.process("jobs").out
    assert out.replace("\n", "").isprintable()
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_a_filter_on_a_terminal_asks_first(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    code, written = on_terminal(store, "cancel", "--queue", "email", keys="n\n")
    assert code == 1
    assert "Cancel 1 job? [y/N]" in written
    assert store("job", id, "--json").document["state"] == "ready"
    code, written = on_terminal(store, "cancel", "--queue", "email", keys="y\n")
    assert code == 0
    assert "1 job cancelled." in written


def test_yes_answers_before_it_is_asked(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    code, written = on_terminal(store, "cancel", "--queue", "email", "--yes")
    assert code == 0
    assert "[y/N]" not in written


def test_ids_are_not_asked_about(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    code, written = on_terminal(store, "cancel", id)
    assert code == 0
    assert "[y/N]" not in written


def test_long_work_shows_a_bar_on_standard_error_of_a_terminal_only(store: Headgate) -> None:
    text = "\n".join(f'{{"id": "j{n}", "task": "send", "args": {{"to": "a"}}}}' for n in range(20))
    (store.folder / "jobs.jsonl").write_text(text)
    piped = store.process("import", "tests.support.cli_shop:app", "jobs.jsonl")
    assert (piped.code, piped.err) == (0, "")
    code, written = on_terminal(store, "delete", "--state", "succeeded", "--yes")
    assert code == 0
    code, written = on_terminal(store, "cancel", "--task", "send", "--yes")
    assert code == 0
    assert "20/20" in written
