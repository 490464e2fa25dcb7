"""What happened, noted outside the store: one file per process, one line per event, appended in one write.

A note is a JSON object. `t` is CLOCK_MONOTONIC in nanoseconds, which all processes of the machine share and which no
fault shifts; `kind` says what happened; `pid` is the process that it happened to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

Note = dict[str, Any]

_file: tuple[int, int] | None = None


def now() -> int:
    """The clock that all notes are on, also in a process whose Python clocks are shifted."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def wall() -> int:
    """The machine's real time in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def note(kind: str, **what: Any) -> None:
    """Write one note."""
    line = {"t": now(), "kind": kind, "pid": os.getpid(), **what}
    os.write(_own_file(), msgspec.json.encode(line) + b"\n")


def _own_file() -> int:
    global _file
    pid = os.getpid()
    if _file is None or _file[0] != pid:
        path = Path(os.environ["CHAOS_FOLDER"]) / "notes" / f"{pid}-{now()}.jsonl"
        path.parent.mkdir(exist_ok=True)
        _file = pid, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    return _file[1]


def read(folder: Path) -> list[Note]:
    """All notes of a run, in the order of time. A killed process may leave half a line."""
    found = [each for path in sorted((folder / "notes").glob("*.jsonl")) for each in _lines(path)]
    return sorted(found, key=lambda each: each["t"])


def _lines(path: Path) -> Iterator[Note]:
    for line in path.read_bytes().split(b"\n"):
        if line.endswith(b"}"):
            yield msgspec.json.decode(line)


def of(notes: Iterable[Note], *kinds: str) -> list[Note]:
    """Those of some kinds."""
    return [each for each in notes if each["kind"] in kinds]
