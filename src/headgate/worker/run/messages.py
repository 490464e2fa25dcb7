"""Numbered messages to one part of the store (rule 13).

The store refuses what is older than the last message that took effect. After any doubt (an error, no answer in time)
the next message says which attempts this worker really has: the store takes back the others, and whatever is still on
its way changes nothing when it arrives.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headgate.engine.deadline import within

T = TypeVar("T")


class Messages:
    """Sends one message at a time, each within `seconds`, and knows whether it was answered."""

    __slots__ = ("_number", "_seconds", "_unanswered", "answered_at", "doubt")

    def __init__(self, seconds: float) -> None:
        self.doubt = False
        """Whether it is unknown if the last message took effect."""
        self._seconds = seconds
        self._number = 0
        self._unanswered: float | None = None
        self.answered_at: float | None = None
        """When an exchange was last answered, by the monotonic clock."""

    async def send(self, message: Callable[[int], Awaitable[T]]) -> T:
        """Send `message(number)`; until its answer is there, it is unknown whether it took effect."""
        self._number += 1
        self.doubt = True
        if self._unanswered is None:
            self._unanswered = time.monotonic()
        with within(self._seconds):
            answer = await message(self._number)
        self.doubt = False
        return answer

    def stuck_for(self) -> float:
        """Seconds since the first of the messages that have had no answer; 0 if all have had one."""
        return 0.0 if self._unanswered is None else time.monotonic() - self._unanswered

    def got_through(self) -> None:
        """An exchange was answered. An answer to a resumption does not count: reports may still be refused."""
        self._unanswered = None
        self.answered_at = time.monotonic()

    def begin(self) -> None:
        """A new registration: what an earlier one has sent is no longer of interest."""
        self.doubt, self._unanswered = False, None
