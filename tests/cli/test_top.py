"""`headgate top` on a real terminal: its views, its keys, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from headgate.cli.top.screens import sparkline
from headgate.testing import use_store
from tests.support import cli_shop as shop
from tests.support.command_line import COMMAND, Headgate
from tests.support.waiting import PATIENCE

if sys.platform == "win32":
    pytest.skip("needs a pseudo-terminal", allow_module_level=True)

import pty
import termios

HOME = "\x1b[H"
"""Where a picture begins."""
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A pseudo-terminal with a command on it."""

    def __init__(self, headgate: Headgate, *words: str, lines: str = "40") -> None:
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        environment = headgate.environment(COLUMNS="140", LINES=lines)
        pipes: dict[str, Any] = {"stdin": self.theirs, "stdout": self.theirs, "stderr": self.theirs}
        self.process = subprocess.Popen(
            [*COMMAND, *words], cwd=headgate.folder, env=environment, start_new_session=True, **pipes
        )
        self.written = ""

    def shows(self, *texts: str, but: str = "") -> None:
        """Read on until a whole picture has all of these texts."""
        end = time.monotonic() + PATIENCE
        while True:
            ready, _, _ = select.select([self.ours], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {texts} in {CODES.sub('', self.written)[-3000:]!r}"
            self.written += os.read(self.ours, 65536).decode(errors="replace")
            *pictures, self.written = self.written.split(HOME)
            if any(_has(CODES.sub("", picture), texts, but) for picture in pictures):
                return

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        """Its exit code; what it still writes is read, or it would wait for that."""
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.1)[0]:
                os.read(self.ours, 65536)
        return self.process.returncode


def _has(picture: str, texts: tuple[str, ...], but: str) -> bool:
    return all(text in picture for text in texts) and not (but and but in picture)


@contextmanager
def terminal(headgate: Headgate, *words: str, **more: str) -> Generator[Terminal]:
    made = Terminal(headgate, "top", "--every", "200ms", *words, **more)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
        made.process.wait()
        os.close(made.ours)
        os.close(made.theirs)


@pytest.fixture
def busy(store: Headgate) -> Headgate:
    store.enqueue("fail")
    store.work()
    for name in ("ada", "bob", "eve"):
        store.enqueue("send", f"to={name}")
    return store


def test_keys_switch_between_the_views(busy: Headgate) -> None:
    with terminal(busy) as top:
        top.shows("1 ready", "2 waiting", "1 failed", "ValueError: it is broken", "email", "customer=1")
        top.press("2")
        top.shows("oldest ready", "email", but="customer=1")
        top.press("3")
        top.shows("tightest keys", "0 of 1", but="email")
        top.press("\t")
        top.shows("No worker is registered")
        top.press("\x1b[Z")
        top.shows("tightest keys", but="ValueError")
        top.press("q")
        assert top.end() == 0
        assert termios.tcgetattr(top.theirs) == top.before


def test_what_changes_is_seen(busy: Headgate) -> None:
    with terminal(busy) as top:
        top.shows("2 waiting")
        busy.enqueue("send", "to=zoe")
        top.shows("3 waiting")
        busy("pause", "email")
        top.shows("paused")
        top.press("q")
        assert top.end() == 0


def test_space_holds_the_picture(busy: Headgate) -> None:
    with terminal(busy) as top:
        top.shows("2 waiting")
        top.press(" ")
        top.shows("held")
        busy.enqueue("send", "to=zoe")
        top.press("2")
        top.shows("oldest ready", "2 waiting", but="customer=1")
        top.press(" ")
        top.shows("3 waiting")
        top.press("q")
        assert top.end() == 0


def test_rows_scroll(store: Headgate) -> None:
    with use_store(shop.app, store.url):
        for number in range(40):
            job = shop.app.raw_job("other", queue=f"q{number:02}")
            shop.app.enqueue_sync(job)
    with terminal(store, lines="20") as top:
        top.shows("40 ready")
        top.press("2")
        top.shows("q00", but="q39")
        top.press("\x1b[B" * 39)
        top.shows("q39")
        top.press("q")
        assert top.end() == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_gives_the_terminal_back(busy: Headgate, name: str) -> None:
    with terminal(busy) as top:
        top.shows("2 waiting")
        assert termios.tcgetattr(top.theirs) != top.before
        top.process.send_signal(getattr(signal, name))
        assert top.end() == 0
        assert termios.tcgetattr(top.theirs) == top.before


def test_elsewhere_it_is_shown_once(busy: Headgate) -> None:
    out = busy("top").out
    for text in ("1 ready", "2 waiting", "customer=1", "email", "No worker is registered"):
        assert text in out
    assert "\x1b" not in out
    shown = busy("top", "--json").document
    assert (shown["totals"]["waiting"], shown["limits"][0]["key"]) == (2, "customer=1")
    assert shown["failed"][0]["retry"]["delay"] == 1
    assert set(shown) == {"now", "totals", "queues", "limits", "workers", "history", "failed"}


def test_a_store_that_is_not_there_is_said(headgate: Headgate) -> None:
    assert headgate("top").code == 3
    assert headgate("top", "--every", "0").code == 2


def test_a_line_of_bars_has_one_for_each_number() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([0, 0]) == "  "
