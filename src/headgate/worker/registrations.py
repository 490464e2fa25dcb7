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


class StoreNote(msgspec.Struct, frozen=True, tag="store"):
    """The store at which the workers of this process register."""

    url: str
    settings: Settings


class BegunNote(msgspec.Struct, frozen=True, tag="begun"):
    """A worker is about to register."""

    worker: str


class RetiredNote(msgspec.Struct, frozen=True, tag="retired"):
    """A worker has retired."""

    worker: str


class LeftNote(msgspec.Struct, frozen=True, tag="left"):
    """A worker has stopped without retiring, since a thread of it runs on until the process ends."""

    worker: str


class WornOutNote(msgspec.Struct, frozen=True, tag="worn_out"):
    """The worker ends since another process is to take its place (`max_jobs`, `max_memory`)."""


Note = StoreNote | BegunNote | RetiredNote | LeftNote | WornOutNote


class Notes(msgspec.Struct, frozen=True):
    """What a process noted: its store, the workers that did not retire, and those of them that left a thread."""

    store: StoreNote | None
    workers: list[str]
    left: list[str]
    worn_out: bool = False


_file: int | None = None
_decoder: msgspec.json.Decoder[Note] = msgspec.json.Decoder(Note)


def keep_in(file: int) -> None:
    """Note this process's registrations in an open file from now on."""
    global _file
    _file = file
    os.set_inheritable(file, False)


def note_store(app: Any) -> None:
    """Note the store of the app whose workers will register; an object without a store of its own is passed over."""
    if hasattr(app, "url") and hasattr(app, "settings"):
        _write(StoreNote(app.url, app.settings))


def note_begin(worker: str) -> None:
    """A worker is about to register."""
    _write(BegunNote(worker))


def note_end(worker: str) -> None:
    """A worker has retired."""
    _write(RetiredNote(worker))


def note_left(worker: str) -> None:
    """A worker has stopped, and a thread of it runs on."""
    _write(LeftNote(worker))


def note_worn_out() -> None:
    """The worker ends to be replaced."""
    _write(WornOutNote())


def _write(note: Note) -> None:
    if _file is not None:
        os.write(_file, msgspec.json.encode(note) + b"\n")


def read_notes(file: int) -> Notes:
    """What a process noted in its file. A line that was cut off says nothing."""
    store: StoreNote | None = None
    workers: dict[str, bool] = {}
    worn_out = False
    for line in os.pread(file, os.fstat(file).st_size, 0).split(b"\n")[:-1]:
        match note := _decoder.decode(line):
            case StoreNote():
                store = note
            case BegunNote():
                workers[note.worker] = False
            case LeftNote():
                workers[note.worker] = True
            case RetiredNote():
                workers.pop(note.worker, None)
            case WornOutNote():
                worn_out = True
    return Notes(store, list(workers), [worker for worker, left in workers.items() if left], worn_out)
