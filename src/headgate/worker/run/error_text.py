"""An exception as text that a person reads in a terminal and a store can keep: bounded, and never itself a failure."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

from headgate import hooks

MAX_BYTES = 8192
MAX_SUMMARY = 1024
WORKER = os.path.dirname(os.path.dirname(__file__))
OWN_FRAMES = (WORKER + os.sep, os.path.dirname(hooks.__file__) + os.sep)


def error_text(error: BaseException) -> str:
    """`Type: message` on the first line, then the traceback without the worker's own frames, cut to 8 KB."""
    summary = _clean(_summary(error))[:MAX_SUMMARY]
    trace = trace_of(error)
    room = MAX_BYTES - len(summary.encode()) - 8
    return f"{summary}\n{_tail(_clean(trace), room)}" if trace else summary


def _summary(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except Exception as second:  # an exception whose text cannot be made must not hide that it happened
        message = f"<its text raised {type(second).__name__}>"
    return f"{name}: {message}" if message else name


def trace_of(error: BaseException) -> str:
    """The traceback without the worker's own frames; empty if there is none."""
    start = _first_foreign(error.__traceback__)
    try:
        return "".join(traceback.format_exception(type(error), error, start)).rstrip() if start else ""
    except Exception:
        return ""


def _first_foreign(tb: TracebackType | None) -> TracebackType | None:
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OWN_FRAMES):
        tb = tb.tb_next
    return tb


def _clean(text: str) -> str:
    """Lone surrogates cannot be stored as UTF-8, NUL not in every store."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _tail(text: str, room: int) -> str:
    """The end of a traceback says most."""
    data = text.encode()
    return text if len(data) <= room else "…" + data[-room:].decode("utf-8", "ignore")
