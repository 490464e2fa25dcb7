"""Records that producers import: jobs with a history, of tasks whose limits are held to by their admission."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from headgate import ImportAttempt, ImportRecord

PASTS: list[list[Literal["succeeded", "failed", "cancelled"]]] = [
    [],
    ["failed"],
    ["failed", "failed", "failed"],
    ["failed", "succeeded"],
    ["cancelled"],
]
"""How the attempts that a job comes with have ended."""
LATELY = timedelta(minutes=1)
"""How long ago: no retention is that short."""


def record(dice: random.Random, id: str) -> ImportRecord:
    """One job, with any of these pasts."""
    past, ended = dice.choices(PASTS, [3, 3, 3, 1, 1])[0], datetime.now(UTC) - LATELY
    seconds = dice.choice([0.001, 0.02, 0.1])
    tasks: list[tuple[str, dict[str, Any]]] = [
        ("visit", {"seconds": seconds, "customer": dice.randrange(8)}),
        ("load", {"seconds": seconds, "customer": dice.randrange(8), "dock": dice.randrange(3)}),
        ("post", {"seconds": seconds / 10, "account": dice.randrange(3)}),
        ("print_label", {"seconds": seconds}),
    ]
    task, args = dice.choice(tasks)
    attempts = tuple(ImportAttempt(outcome, ended, ended, worker="elsewhere") for outcome in past)
    return ImportRecord(id=id, task=task, args=args, attempts=attempts)


def said_of(record: ImportRecord) -> dict[str, Any]:
    """What is noted of a record that the store has taken."""
    past = [each.outcome for each in record.attempts]
    return {"id": record.id, "own": True, "task": record.task, "past": past, "line": None}
