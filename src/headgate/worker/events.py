"""What happens inside a worker, told to its listeners: tests wait for these instead of sleeping.

Both kinds of events go through here, so that every part of a worker that has something to tell is handed one object:
events of the worker itself (`emit`), and those of jobs, which the listeners of the app get (`jobs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from headgate.hooks.listeners import call
from headgate.worker.job_events import JobEvents

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
    "learnt",  # an adaptive limit's number was changed
    "worn_out",  # max_jobs or max_memory is reached: it finishes what it runs, and ends
    "stopping",
    "stopped",
]


class Event(msgspec.Struct, frozen=True):
    """One thing that happened."""

    kind: EventKind
    facts: Mapping[str, Any] = {}


Listener = Callable[[Event], None]


class Events:
    """The listeners of one worker, and in `jobs` those of its app."""

    __slots__ = ("jobs", "listeners")

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners: list[Listener] = [*listeners]
        self.jobs = JobEvents()

    def emit(self, kind: EventKind, **facts: Any) -> None:
        """Tell the listeners; costs nothing when there are none. One that raises is logged."""
        if self.listeners:
            event = Event(kind, facts)
            for listener in tuple(self.listeners):
                call(listener, event)
