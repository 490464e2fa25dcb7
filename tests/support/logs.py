"""Logging as a new process has it."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def bare_root() -> Generator[logging.Logger]:
    """The root logger without handlers, also without those by which pytest listens to each phase of a test."""
    root, own = logging.getLogger(), logging.getLogger("headgate")
    handlers, level, own_level = root.handlers, root.level, own.level
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)
        own.setLevel(own_level)
