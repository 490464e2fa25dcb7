"""Which part of the store may hand suspects to this process that are kept apart (rule 15).

A store keeps suspects apart per registration, and each part has one of its own; but the process dies as a whole. So
only one part at a time claims suspects of level 2 or more, in turn; the others ask for lighter jobs only.
"""

from __future__ import annotations


class SuspectsTurn:
    """One turn per process, handed round among the parts that were refused it."""

    def __init__(self) -> None:
        self._holder: object | None = None
        self._waiting: dict[object, None] = {}

    def take(self, part: object) -> bool:
        """Whether this part may claim suspects of level 2 or more now."""
        first = next(iter(self._waiting), part)
        if self._holder is part or (self._holder is None and first is part):
            self._holder = part
            self._waiting.pop(part, None)
            return True
        self._waiting.setdefault(part)
        return False

    def give_back(self, part: object) -> None:
        """The part runs no such suspect, and no claim of it is under way."""
        if self._holder is part:
            self._holder = None

    def leave(self, part: object) -> None:
        """The part cannot claim anything for now: nothing waits for it."""
        self.give_back(part)
        self._waiting.pop(part, None)
