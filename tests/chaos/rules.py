"""The numbers of a run: what the app declares, and what the judge holds it to."""

from __future__ import annotations

from typing import NamedTuple

from headgate import Retry


class Rate(NamedTuple):
    """So many starts, or so much spent, per so many seconds; a bucket lets `burst` be spent together."""

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
    "shelf": 8,
    "booth": 2,
    "page": 1,
    "view": 1,
    "draft": 1,
    "crm": 2,
    "inbox": 1,
    "outbox": 1,
    "counter": 1,
    "service": 4,
    "desk": 3,
}
"""At most so many at once per key, by the name of the limit. The floating `model` is never computed above this. Jobs
take several units of a `shelf`."""
ADJUSTED = "adjusted"
"""The limit that operators change; what it was when is in the notes."""

BUCKETS = {"api": Rate(20, 1.0, burst=5), "tokens": Rate(800, 1.0, burst=400)}
WINDOWS = {"account": Rate(8, 1.0), "words": Rate(1000, 1.0)}
"""`tokens` and `words` are spent by estimates, which attempts correct."""
ORDERED = "line"
"""Keys whose jobs start in the order in which they were enqueued."""
LEASE = 3.0
TICK = 1.0
ENDS_FAILED = {"fail"}
FORGOTTEN = {"forget", "tick"}
"""Tasks whose ended jobs may be gone at the end."""
STUBBORN = Retry(attempts=10_000, delay=0.05, backoff=1, losses=1000)

MOST_WAITING = {"crm": 5, "inbox": 4, "outbox": 4, "letters": 6}
"""How many may wait: on each key of a limit, and in the queue of letters."""
PENDING = {
    "page": MAXIMA["page"],
    "view": MAXIMA["view"] + 1,
    "crm": MAXIMA["crm"] + MOST_WAITING["crm"],
    "inbox": MAXIMA["inbox"] + MOST_WAITING["inbox"],
    "outbox": MAXIMA["outbox"] + MOST_WAITING["outbox"],
    "letters": MOST_WAITING["letters"],
}
"""How many newcomers may be pending: those for which there is room, and those that wait."""
TURNED_AWAY = {
    "refresh": "dropped: limit 'page=",
    "view": "replaced: job ",
    "receive": f"dropped: {MOST_WAITING['inbox']} jobs wait for 'inbox=",
    "dispatch": f"dropped: {MOST_WAITING['outbox']} jobs wait for 'outbox=",
    "write": f"dropped: {MOST_WAITING['letters']} jobs wait for 'queue:letters'",
    "hurry": "expired: ",
}
"""By task, how the reason begins with which its jobs may be cancelled. Drafts are stopped as they run, without one."""
OTHERS = {"refresh": 1, "draft": 1, "receive": MOST_WAITING["inbox"], "dispatch": MOST_WAITING["outbox"]} | {
    "write": MOST_WAITING["letters"]
}
"""By task, how many others of the same key are about when a job is turned away."""

WEIGHTS = (0.5, 1, 2)
"""What operators give to shares."""
SHARES = ("a", "b", "c", "d")
IN_FLIGHT = {"ride": 90, "booth": 12}
"""By task of a shared queue, how many starts may be out of turn: workers claim as many as they have places, 80
together, and their stamps are those of when they began to ask. Of a key of two there are few at a time."""

PUT_OFF = 0.5
AT_MOST = 0.7
"""Seconds that each update puts a job off, and all of them together."""
ONCE_IN = 1.0
"""Seconds for which a start keeps the unique key of a greeting."""
