"""Keys as they are pressed, for as long as a terminal is watched."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

NAMES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\t": "next",
    "\x1b[C": "next",
    "\x1b[Z": "previous",
    "\x1b[D": "previous",
    " ": "hold",
    "k": "up",
    "j": "down",
    "q": "end",
    "Q": "end",
    "\x04": "end",
    "": "end",
}
"""What a terminal sends, and what it is for; a terminal that is gone sends nothing."""

KEYS = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
"""A key that is held down sends several at once."""


@contextmanager
def keyboard(press: Callable[[str], None]) -> Generator[None]:
    """Call `press` with each key. The terminal is as it was afterwards; where there is none, no key comes."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C ends it
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    source, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def arrived() -> None:
        try:
            sent = os.read(source, 64).decode(errors="ignore")
        except OSError:
            sent = ""
        if not sent:
            loop.remove_reader(source)
        keys: list[str] = KEYS.findall(sent)
        for key in keys or [sent]:
            press(NAMES.get(key, key))

    before = termios.tcgetattr(source)
    tty.setcbreak(source)
    loop.add_reader(source, arrived)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
