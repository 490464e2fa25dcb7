"""What becomes of those for whom there is no room, in words for people."""

from __future__ import annotations

from headgate.app.info import LimitInfo

_FULL = {
    "drop": "a newcomer that finds no slot is dropped",
    "replace": "a newcomer that finds no slot replaces those that wait",
    "cancel": "a newcomer that finds no slot has the job cancelled that runs longest",
}
_BEYOND = {
    "refuse": "newcomers are refused",
    "drop_oldest": "the first in line is dropped",
    "drop_newest": "newcomers are dropped",
}


def when_no_room(limit: LimitInfo) -> list[str]:
    """A phrase for each rule of a limit that is not simply to wait."""
    words = [_FULL[limit.when_full]] if limit.when_full in _FULL else []
    if limit.max_waiting is not None:
        jobs = "ready or waiting" if limit.name.startswith("queue:") else "waiting"
        beyond = _BEYOND[limit.on_overflow or "refuse"]
        words.append(f"at most {limit.max_waiting:,} {jobs}, beyond that {beyond}")
    return words
