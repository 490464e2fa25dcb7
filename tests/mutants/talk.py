"""What a `Session` and the plugin in its process say to each other."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct):
    """Run these tests in a fork: until one fails otherwise than by its time limit, or `late` have reached that."""

    tests: list[str]
    limit: float
    late: int


class Collected(msgspec.Struct, tag=True):
    """The tests that there are."""

    tests: list[str]


class Forked(msgspec.Struct, tag=True):
    """The fork leads a group of processes, with all that it starts."""

    pid: int


class Begun(msgspec.Struct, tag=True):
    """A test."""

    test: str


class Ran(msgspec.Struct, tag=True):
    """One test, and what came of it."""

    test: str
    failed: bool
    timed_out: bool


class Ended(msgspec.Struct, tag=True):
    """The fork is gone, and so is what it left."""


Event = Collected | Forked | Begun | Ran | Ended
