"""The numbers of a run: what the app declares, and what the judge holds it to."""

from __future__ import annotations

from typing import NamedTuple


class Rate(NamedTuple):
    """So many starts per so many seconds; a bucket lets `burst` start together."""

    most: int
    per: float
    burst: int = 0


MAXIMA = {
    "customer": 1,
    "dock": 2,
    "task:ship": 3,
    "queue:bulk": 4,
    "model": 3,
    "plan": 2,
    "gateway": 3,
    "adjusted": 2,
    "line": 1,
    "unique": 1,
}
"""At most so many at once per key, by the name of the limit. The floating `model` is never computed above this."""
ADJUSTED = "adjusted"
"""The limit that operators change; what it was when is in the notes."""

BUCKETS = {"api": Rate(20, 1.0, burst=5)}
WINDOWS = {"account": Rate(8, 1.0)}
ORDERED = "line"
"""Keys whose jobs start in the order in which they were enqueued."""
LEASE = 3.0
TICK = 1.0
ENDS_FAILED = {"fail"}
FORGOTTEN = {"forget", "tick"}
"""Tasks whose ended jobs may be gone at the end."""
