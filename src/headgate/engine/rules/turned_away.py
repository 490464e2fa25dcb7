"""The reasons with which jobs end that found no room, or no time: which limit, and which rule of it.

They become the error of a cancelled job, word for word the same on every store.
"""

from __future__ import annotations

from headgate.keys import Key

EXPIRED = "expired: it was not started in time"


def _shown(ident: str) -> str:
    key = Key.of(ident)
    return f"{key.text!r} of tenant {key.tenant!r}" if key.tenant else repr(key.text)


def dropped(ident: str) -> str:
    """A newcomer of a limit with when_full="drop"."""
    return f"dropped: limit {_shown(ident)} was full (when_full='drop')"


def replaced(ident: str, by: str) -> str:
    """A waiter of a limit with when_full="replace"."""
    return f"replaced: job {by!r} came for limit {_shown(ident)} (when_full='replace')"


def displaced(ident: str, by: str) -> str:
    """A running job of a limit with when_full="cancel"."""
    return f"stopped: job {by!r} came for limit {_shown(ident)} (when_full='cancel')"


def overflowed(ident: str, most: int) -> str:
    """A job beyond the backlog of a limit or queue."""
    return f"dropped: {most} jobs wait for {_shown(ident)} already (max_waiting)"


def refused(ident: str, most: int) -> str:
    """What BacklogFull says."""
    return f"{most} jobs wait for {_shown(ident)} already, as many as may (max_waiting={most}); nothing was enqueued"
