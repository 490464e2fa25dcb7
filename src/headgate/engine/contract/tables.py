"""The tables that `select` asks: the same names and columns on every store, stable for the SQL that asks them."""

from __future__ import annotations

from typing import Literal

from headgate.engine.contract.record import Record

Type = Literal["text", "integer", "time", "boolean", "json"]


class Column(Record, frozen=True):
    """One column. Times are UTC: `timestamptz` on PostgreSQL, texts like `2026-03-01T12:00:00.000000Z` elsewhere."""

    name: str
    type: Type
    about: str


class Table(Record, frozen=True):
    """One table, and by which of its columns a store finds rows without reading all of them."""

    name: str
    about: str
    columns: tuple[Column, ...]
    found_by: tuple[str, ...] = ()


_KEY = (
    Column("key", "text", "the key as it is typed, name or name=value"),
    Column("name", "text", "the limit's name"),
    Column("tenant", "text", "the tenant whose key it is; empty if shared"),
)

TABLES: tuple[Table, ...] = (
    Table(
        "jobs",
        "every job that the store has, unfinished and ended",
        (
            Column("id", "text", "the job's id"),
            Column("state", "text", "scheduled, ready, waiting, running, succeeded, failed, cancelled"),
            Column("task", "text", "the name of its task"),
            Column("queue", "text", "its queue"),
            Column("tenant", "text", "its tenant; empty if it has none"),
            Column("priority", "integer", "0 comes first, 99 last"),
            Column("due", "time", "when it may, or might have, started"),
            Column("enqueued_at", "time", "when it was enqueued"),
            Column("started_at", "time", "when its latest attempt started"),
            Column("ended_at", "time", "when it ended"),
            Column("attempt", "integer", "the number of its latest attempt; 0 before the first"),
            Column("tries", "integer", "attempts that count against its retry policy"),
            Column("worker", "text", "the worker that runs it, or ended it"),
            Column("waiting_on", "text", "the key that it waits on, as it is typed"),
            Column("unique_key", "text", "the key under which it is unique"),
            Column("cancel_requested", "boolean", "whether it has been asked to stop"),
            Column("error", "text", "why it failed, or was cancelled"),
            Column("args", "json", "its arguments, as they are stored"),
            Column("result", "json", "what it returned, as it is stored"),
            Column("progress", "json", "what it reported last"),
            Column("metadata", "json", "what was enqueued with it"),
            Column("headers", "json", "what travels with it"),
            Column("share", "text", "whose part of its shared queue it takes; empty if it has none"),
            Column(
                "start_by",
                "time",
                "until when it must have started; empty if it may start at any time, or has",
            ),
        ),
        ("id", "state", "queue", "task", "tenant"),
    ),
    Table(
        "attempts",
        "the attempts of jobs that have ended; a running one is in jobs",
        (
            Column("job", "text", "the job's id"),
            Column("number", "integer", "1, 2, 3 …"),
            Column("outcome", "text", "succeeded, failed, cancelled, lost, snoozed, released, throttled"),
            Column("started_at", "time", "when it started"),
            Column("ended_at", "time", "when it ended"),
            Column("worker", "text", "the worker that ran it"),
            Column("error", "text", "what was raised"),
        ),
        ("job",),
    ),
    Table(
        "holders",
        "what holds a slot of which key",
        (
            *_KEY,
            Column("job", "text", "the job that holds it"),
            Column("task", "text", "its task"),
            Column("queue", "text", "its queue"),
            Column("worker", "text", "the worker that runs it"),
            Column("since", "time", "since when"),
            Column("reserved", "boolean", "whether a job that waits elsewhere keeps it"),
            Column("units", "integer", "how many slots it holds"),
        ),
        ("key",),
    ),
    Table(
        "waiters",
        "what waits for which key",
        (
            *_KEY,
            Column("job", "text", "the job that waits"),
            Column("task", "text", "its task"),
            Column("queue", "text", "its queue"),
            Column("priority", "integer", "0 comes first, 99 last"),
            Column("due", "time", "since when it could run"),
        ),
        ("key",),
    ),
    Table(
        "limits",
        "every declared limit, and each of its keys that is held, waited for, overridden or computed",
        (
            *_KEY,
            Column("kind", "text", "concurrency, rate, floating"),
            Column("max", "integer", "the number in force; empty where nothing limits"),
            Column("declared", "integer", "the number from code"),
            Column("held", "integer", "slots that are held"),
            Column("waiting", "integer", "jobs that wait"),
            Column("per", "integer", "the period of a rate in microseconds"),
            Column("burst", "integer", "the burst of a rate"),
            Column("algorithm", "text", "token_bucket, leaky, sliding_window"),
        ),
        ("name",),
    ),
    Table(
        "overrides",
        "what operators have set",
        (
            Column("key", "text", "the limit or key that it speaks for"),
            Column("name", "text", "the limit's name"),
            Column("tenant", "text", "the tenant that it speaks for; empty for all"),
            Column("max", "integer", "the number; empty lifts the limit"),
            Column("by", "text", "who set it"),
            Column("at", "time", "when"),
            Column("why", "text", "why"),
            Column("until", "time", "until when"),
        ),
    ),
    Table(
        "queues",
        "every queue that has unfinished jobs or is paused",
        (
            Column("name", "text", "the queue"),
            Column("paused", "boolean", "whether nothing is started from it"),
            Column("scheduled", "integer", "jobs that are due later"),
            Column("ready", "integer", "jobs that may be tried"),
            Column("waiting", "integer", "jobs that wait on a key"),
            Column("running", "integer", "jobs that run"),
            Column("oldest", "time", "since when the first of its ready jobs is due"),
        ),
    ),
    Table(
        "workers",
        "the registered workers",
        (
            Column("id", "text", "the worker's id"),
            Column("host", "text", "its machine"),
            Column("pid", "integer", "its process"),
            Column("queues", "json", "the queues that it serves; empty for all"),
            Column("tasks", "json", "the tasks that it knows"),
            Column("concurrency", "integer", "how many jobs it runs at once"),
            Column("running", "integer", "how many it runs now"),
            Column("registered_at", "time", "when it began"),
            Column("lease_until", "time", "until when its lease lasts"),
        ),
    ),
)
