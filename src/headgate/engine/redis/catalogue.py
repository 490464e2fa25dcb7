"""The keys of a partition, all of them. Scripts use no others; the leak check of the tests holds them to it.

Every key begins with the partition's hash tag, `{headgate:p0}:`, so that all of it lives in one slot of a cluster. Most
keys are collections that Redis itself deletes when their last member goes: an idle limit key costs nothing. What ends
is deleted by retention (sweep), never by an expiry of Redis: a key that vanished by itself would leave its entries in
the lines behind.

A line is a sorted set in which all have the score 1, and whose members sort, byte by byte, by priority (2 digits), tag
of the fair share (16), due time (16) and arrival (12), and end in the job's id: exact where a score, a double, is not.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

VERSION = 5
"""Of the data. Scripts refuse any other; opening brings older data up to it (open.lua)."""

Lasts = Literal["always", "while used", "until retention", "for a day"]


class Kind(NamedTuple):
    """One kind of key: its Redis type, how long it lasts, what it is for."""

    type: str
    lasts: Lasts
    purpose: str


SINGLE: dict[str, Kind] = {
    "meta": Kind(
        "hash",
        "always",
        "version, epoch, number of partitions, the last arrival number, a name for the rules, up to which arrival "
        "jobs of older data have yet to be listed by state, whether lines of older data have yet to get their tags",
    ),
    "limits": Kind("hash", "always", "name → declared limit"),
    "overrides": Kind("hash", "always", "scope → an operator's word"),
    "computed": Kind("hash", "always", "key → numbers of its own: computed, learnt, brought by its jobs"),
    "computes": Kind("zset", "always", "keys with numbers of their own, by name"),
    "refreshed": Kind("zset", "always", "keys with numbers of their own, by when they are next looked at"),
    "sized": Kind("hash", "always", "limits of which jobs have named other units than one"),
    "weights": Kind("hash", "always", "share → its weight by an operator's word"),
    "declared": Kind("hash", "always", "share → its weight as declared in code"),
    "shares": Kind("zset", "always", "shares with a weight, by name"),
    "ticks": Kind("hash", "always", "periodic task → its last tick"),
    "paused": Kind("set", "always", "queues that are not claimed from"),
    "schedules": Kind("set", "always", "periodic tasks that are paused"),
    "minutes": Kind("zset", "for a day", "minutes of the history, by their begin"),
    "untils": Kind("zset", "while used", "overrides by the time they run out"),
    "jobs": Kind("zset", "until retention", "every job by arrival: lists, newest first"),
    "failed": Kind("zset", "until retention", "failed jobs by arrival"),
    "cancelled": Kind("zset", "until retention", "cancelled jobs by arrival"),
    "ended": Kind("zset", "until retention", "ended jobs by the time retention deletes them"),
    "counts": Kind("hash", "until retention", "state and queue → number of jobs"),
    "unique": Kind("hash", "while used", "tenant and unique key → the unfinished job that has it"),
    "scheduled": Kind("zset", "while used", "jobs by due time"),
    "queues": Kind("set", "while used", "queues with ready jobs, set aside or not"),
    "asides": Kind("set", "while used", "(queue, task) with jobs set aside"),
    "threads": Kind("set", "while used", "(queue, task) with jobs set aside for lack of threads"),
    "suspects": Kind("set", "while used", "lines of ready suspects (rule 15)"),
    "offers": Kind("hash", "while used", "(queue, key) → units promised to ready jobs"),
    "waitqs": Kind("hash", "while used", "key → the queues with waiters on it"),
    "waited": Kind("zset", "while used", "keys that are waited for, by name"),
    "helds": Kind("zset", "while used", "keys that are held, by name"),
    "reserved": Kind("zset", "while used", "reservations of ready jobs by the time they run out"),
    "timers": Kind("zset", "while used", "rate keys with waiters by the time of their next token"),
    "workers": Kind("hash", "while used", "worker → what it registered with"),
    "numbers": Kind("hash", "while used", "worker → the number of its last message (rule 13)"),
    "leases": Kind("zset", "while used", "workers by the end of their lease"),
    "meters": Kind("zset", "while used", "rate keys by the time their bucket is full again (GCRA)"),
    "windows": Kind("zset", "while used", "rate keys with a sliding window by the time it is empty"),
    "spent": Kind("hash", "while used", "rate key → starts within its sliding window"),
    "periods": Kind(
        "hash", "while used", "estimated rate key → since when it is busy, and what corrections gave back"
    ),
    "larger": Kind("hash", "while used", "key → units of its holders beyond one each"),
    "gates": Kind("hash", "while used", "throttled key → when it opens, and how fast"),
    "starting": Kind("zset", "while used", "jobs that have not started by the time by which they must"),
    "weightends": Kind("zset", "while used", "shares by the time their weight runs out"),
    "virtual": Kind("hash", "while used", "priority and queue → how far its shares have come"),
    "sharing": Kind("hash", "while used", "priority and queue → ready, waiting and running jobs with a tag"),
    "filling": Kind("hash", "while used", "queue → before which arrival jobs have yet to get into its crowd"),
    "quiet": Kind(
        "zset", "while used", "priorities and queues without jobs of any share, to be forgotten by a sweep"
    ),
    "means": Kind("hash", "while used", "(queue, share) → how long its attempts take"),
    "learnt": Kind("zset", "while used", "(queue, share) by when that was learnt"),
    "retags": Kind("hash", "while used", "line of a share → what is left to be tagged anew"),
}

FAMILIES: dict[str, Kind] = {
    "job:": Kind(
        "string", "until retention", "what moves of a job, its result too, and what admission asks of it"
    ),
    "spec:": Kind("string", "until retention", "what only Python reads of a job: its arguments above all"),
    "past:": Kind(
        "string", "until retention", "a job's attempts that did not end it, one packed after the other"
    ),
    "ready:": Kind("zset", "while used", "line of a queue's ready jobs"),
    "aside:": Kind("zset", "while used", "line of ready jobs of (queue, task) that no worker knew"),
    "thread:": Kind(
        "zset", "while used", "line of ready jobs of (queue, task) for which a worker had no thread"
    ),
    "suspect:": Kind(
        "zset",
        "while used",
        "line of ready suspects: `r` and a queue, or `a` or `t` and the (queue, task) set aside",
    ),
    "wait:": Kind("zset", "while used", "line of the jobs of a queue that wait on a key"),
    "held:": Kind(
        "hash",
        "while used",
        "job → since when it holds a key, `r` for a reservation, `*` and its units if not one",
    ),
    "share:": Kind(
        "zset", "while used", "ready and waiting jobs with a share of a priority and queue, by share"
    ),
    "crowd:": Kind("zset", "while used", "ready and waiting jobs of a queue whose backlog loses its oldest"),
    "run:": Kind("zset", "while used", "what a worker runs, by arrival"),
    "stop:": Kind("zset", "while used", "which of these it was asked to stop"),
    "starts:": Kind("zset", "while used", "starts within a sliding window"),
    "blocks:": Kind(
        "hash", "while used", "scheduled, ready or waiting → block of arrivals → how many of its jobs are so"
    ),
    "did:": Kind("hash", "for a day", "minute → (queue, task) → what workers did"),
}

ALWAYS = frozenset(name for name, kind in SINGLE.items() if kind.lasts == "always")


def tag(prefix: str, partition: int) -> str:
    """What every key of a partition begins with."""
    return f"{{{prefix}:p{partition}}}:"


def is_known(name: str) -> bool:
    """Whether a key, without its partition's tag, is in the catalogue."""
    return name in SINGLE or name.startswith(tuple(FAMILIES))
