"""What a worker and a process of its pool say to each other: records, each behind its length, on a pair of sockets.

worker     Load once, then Run and perhaps AskToEnd, again and again; the end of the stream ends the process
process    Loaded or NotLoaded once, then Progressed and SpentUnits any number of times and Ended, for each Run
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.engine.contract import (
    Attempt,
    Failed,
    Outcome,
    Released,
    Snoozed,
    Stopped,
    Succeeded,
    Throttled,
)

HEADER = 4
"""Bytes that say how long the record behind them is."""


class AppSource(msgspec.Struct, frozen=True, kw_only=True):
    """How another process gets the same app: a module and an attribute of it, as on a command line, or of a program's
    main file. `logs` are level, JSON and config of `headgate worker`, which configures them."""

    target: str = ""
    factory: bool = False
    app_dir: str = "."
    main_file: str | None = None
    attribute: str = ""
    logs: tuple[str, bool, str] | None = None


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load the app, as a child of this process."""

    source: AppSource
    path: list[str]
    argv: list[str]
    parent: int


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run an attempt, inside what is carried to it (hooks/carried.py)."""

    attempt: Attempt
    worker: str
    carried: Mapping[str, Mapping[str, str]] = {}


class AskToEnd(msgspec.Struct, frozen=True, tag="ask_to_end"):
    """The attempt should end: a cancel was asked, or the worker stops."""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The process is ready to run attempts."""


class NotLoaded(msgspec.Struct, frozen=True, tag="not_loaded"):
    """The app cannot be loaded; the process ends."""

    error: str


class Progressed(msgspec.Struct, frozen=True, tag="progressed"):
    """The attempt says how far it is."""

    value: str


class SpentUnits(msgspec.Struct, frozen=True, tag="spent"):
    """The attempt says what it really spent of an estimated limit."""

    limit: str
    units: int


class Raised(msgspec.Struct, frozen=True):
    """What the task raised: the class with its module, what it says, and how it was raised."""

    kind: str
    message: str
    trace: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The attempt has ended. `outcome` is what the store is to be told; `memory` the bytes that the process takes."""

    name: str
    outcome: msgspec.Raw
    raised: Raised | None
    memory: int | None


ToProcess = Load | Run | AskToEnd
ToWorker = Loaded | NotLoaded | Progressed | SpentUnits | Ended

_encoder = msgspec.msgpack.Encoder()
_to_process: msgspec.msgpack.Decoder[ToProcess] = msgspec.msgpack.Decoder(ToProcess)
_to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
_OUTCOMES: dict[str, Any] = {
    each.__name__: each for each in (Succeeded, Failed, Snoozed, Stopped, Released, Throttled)
}


def frame(record: ToProcess | ToWorker) -> bytes:
    """A record as it is sent."""
    body = _encoder.encode(record)
    return len(body).to_bytes(HEADER, "big") + body


def length(header: bytes) -> int:
    """The length of the record behind a header."""
    return int.from_bytes(header, "big")


def read_by_process(body: bytes) -> ToProcess:
    """What a worker has sent."""
    return _to_process.decode(body)


def read_by_worker(body: bytes) -> ToWorker:
    """What a process has sent."""
    return _to_worker.decode(body)


def ended(outcome: Outcome, raised: Raised | None, memory: int | None) -> Ended:
    """The end of an attempt, to be sent."""
    return Ended(type(outcome).__name__, msgspec.Raw(_encoder.encode(outcome)), raised, memory)


def outcome_of(ended: Ended) -> Outcome:
    """What the store is to be told."""
    return msgspec.msgpack.decode(ended.outcome, type=_OUTCOMES[ended.name])
