"""The registrations of this process, written down for its supervisor.

A supervisor that sees its child die tells the store at once which workers are gone. It must know them even if the
child dies right after registering: an id is noted before it is used. The file has no name, so nothing of it stays
behind; a process without a supervisor has none.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from headgate.engine.contract import Settings


class Store(msgspec.Struct, frozen=True, tag="store"):
    """Where the workers of this process register."""

    url: str
    settings: Settings


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A worker is about to register."""

    worker: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A worker has retired."""

    worker: str


Entry = Store | Begun | Ended

_file: int | None = None
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def keep_in(file: int) -> None:
    """Note this process's registrations in an open file from now on."""
    global _file
    _file = file
    os.set_inheritable(file, False)


def note_store(app: Any) -> None:
    """The app whose workers will register; whatever runs workers without a store of its own is passed over."""
    if hasattr(app, "url") and hasattr(app, "settings"):
        _write(Store(app.url, app.settings))


def note(worker: str) -> None:
    """A worker is about to register."""
    _write(Begun(worker))


def note_end(worker: str) -> None:
    """A worker has retired."""
    _write(Ended(worker))


def _write(entry: Entry) -> None:
    if _file is not None:
        os.write(_file, msgspec.json.encode(entry) + b"\n")


def left_behind(file: int) -> tuple[Store | None, list[str]]:
    """What a process noted: its store, and the workers that did not retire. A line that was cut off says nothing."""
    store: Store | None = None
    workers: dict[str, None] = {}
    for line in os.pread(file, os.fstat(file).st_size, 0).split(b"\n")[:-1]:
        match _decoder.decode(line):
            case Store() as entry:
                store = entry
            case Begun() as entry:
                workers[entry.worker] = None
            case Ended() as entry:
                workers.pop(entry.worker, None)
    return store, list(workers)
