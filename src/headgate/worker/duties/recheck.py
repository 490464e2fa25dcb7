"""The duty to recheck (rule 20): looks at a slice of the store's keys now and then, and mends what cannot be."""

from __future__ import annotations

import logging

from headgate.engine.contract import Part
from headgate.worker.duties.duty import jittered
from headgate.worker.events import Events

log = logging.getLogger("headgate.worker")

DEFECT = "the store was not in order, please report this: %s"
RECHECK_INTERVAL = 5.0
"""Seconds between two slices."""


class Recheck:
    """Goes round the keys, slice by slice. Whatever it has to mend means a defect, and is logged as an error."""

    name = "recheck"

    def __init__(self, part: Part, events: Events) -> None:
        self.asked = False
        self._part = part
        self._events = events
        self._after: str | None = None
        self._begun = False

    async def run_once(self) -> float:
        """Recheck the next slice."""
        self.asked = self._begun
        if self._begun:
            rechecked = await self._part.recheck(self._after)
            self._after = rechecked.after
            for sentence in rechecked.healed:
                log.error(DEFECT, sentence)
            self._events.emit("rechecked", healed=rechecked.healed)
        self._begun = True  # not at the very start, where it would be in the way of the first exchange
        return jittered(RECHECK_INTERVAL)
