"""What happens inside a worker, told to its listeners: tests wait for these instead of sleeping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

EventKind = Literal[
    "registered",  # a lease began (also after a fence)
    "exchanged",  # an answer came: settled, claimed
    "idle",  # nothing to do until a wake-up
    "beat",  # the lease was renewed
    "fenced",  # the lease was lost: everything it ran was cancelled
    "unavailable",  # the engine cannot be reached
    "recovered",  # it can again
    "overrun",  # an attempt is past its timeout and still running
    "resumed",  # after a doubt: the store and the worker agree again on what it runs
    "blocked",  # the event loop stands still
    "unblocked",  # it goes on
    "swept",
    "rechecked",
    "ticked",
    "refreshing",
    "stopping",
    "stopped",
]


class Event(msgspec.Struct, frozen=True):
    """One thing that happened."""

    kind: EventKind
    facts: Mapping[str, Any] = {}


Listener = Callable[[Event], None]


class Events:
    """The listeners of one worker."""

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: list[Listener] = []

    def emit(self, kind: EventKind, **facts: Any) -> None:
        """Tell the listeners; costs nothing when there are none."""
        if self.listeners:
            event = Event(kind, facts)
            for listener in tuple(self.listeners):
                listener(event)
