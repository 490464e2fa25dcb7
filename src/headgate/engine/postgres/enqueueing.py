"""The call that stores jobs, for our own connections and for those of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.engine.contract import Enqueued, Limit, Settings
from headgate.engine.postgres import rows
from headgate.engine.postgres.importing import keep
from headgate.engine.postgres.rows import STATES
from headgate.engine.postgres.scripts import quoted
from headgate.engine.postgres.wire import got, put, put_if, put_key
from headgate.errors import ConfigError, HeadgateError, JobExists
from headgate.job import NewJob
from headgate.keys import Key

TYPES = (
    "text[]", "text[]", "text[]", "text[]", "text[]", "smallint[]", "bigint[]", "bigint[]", "text[]", "bigint[]",
    "text[]", "text[]", "text[]", "bigint[]", "integer[]", "text[]", "bigint[]", "text[]", "boolean[]", "json",
    "bigint", "bigint", "bigint[]", "text", "boolean",
)  # fmt: skip
"""Of the parameters of `_enqueue`: drivers that send texts need them."""


def enqueue_call(
    schema: str,
    jobs: Sequence[NewJob],
    limits: Sequence[Limit],
    settings: Settings,
    now: int | None,
    by: str | None,
    *,
    notify: bool | None,
    placeholder: str = "${}",
    escape: Callable[[str], str] = str,
) -> tuple[str, tuple[Any, ...]]:
    """The statement and its parameters. `notify` True calls sleepers when the caller's transaction commits.

    `escape` hides what in the schema's name would look like a placeholder."""
    places = ", ".join(f"CAST({placeholder.format(n)} AS {kind})" for n, kind in enumerate(TYPES, 1))
    values = (
        *rows.enqueued(jobs), rows.declared(limits), now, settings.reservation_ttl, keep(settings), by, notify,
    )  # fmt: skip
    return f"SELECT * FROM {escape(quoted(schema))}._enqueue({places})", values


def one_call(schema: str) -> str:
    """The statement that stores one simple job."""
    places = ", ".join(f"${number}" for number in range(1, 17))
    return f"SELECT * FROM {quoted(schema)}._enqueue_one({places})"


def one_values(job: NewJob, now: int | None, by: str | None) -> tuple[Any, ...] | None:
    """Its parameters; None for a job that needs more than one slot of one key."""
    key = name = None
    if job.unique is not None or len(job.uses) > 1:
        return None
    if job.uses:
        use = Key.of(job.uses[0].key)
        if use.rate or job.uses[0].units != 1:
            return None
        key, name = put_key(job.uses[0].key), put(use.name)
    return (
        put(job.id), put(job.task), put(job.queue), put(job.args), put(job.tenant), job.priority, job.delay, job.at,
        rows.write_retry(job.retry), job.timeout, put_if(job.metadata), job.retention, key, name, now, by,
    )  # fmt: skip


def one_result(job: NewJob, row: Any) -> Enqueued | None:
    """What became of it; None if it has to go the long way."""
    problem: str | None = row["problem"]
    if problem is None:
        return Enqueued(job.id, STATES[row["state"]], True)
    if problem == "long":
        return None
    subject = job.id if problem == "exists" else Key.of(job.uses[0].key).name
    raise _problem(problem, subject, row["detail"])


def enqueue_result(jobs: Sequence[NewJob], row: Any) -> list[Enqueued]:
    """What became of the jobs, or the error that says why nothing did."""
    if row["problem"] is not None:
        raise _problem(row["problem"], got(row["subject"]), row["detail"])
    states, rivals = row["states"] or (), row["rivals"]
    if rivals is None:
        known = [STATES[state] for state in states]
        return [
            Enqueued(job.id, state, True)
            for job, state in zip(jobs, known * len(jobs) if len(known) == 1 else known, strict=True)
        ]
    return [
        Enqueued(job.id if rival is None else got(rival), STATES[state], rival is None)
        for job, state, rival in zip(jobs, states, rivals, strict=True)
    ]


def _problem(problem: str, subject: str, detail: str) -> HeadgateError:
    match problem:
        case "exists":
            return JobExists(f"a job with id {subject!r} exists already; nothing was enqueued", subject)
        case "rival":
            state, _, unique = detail.partition(" ")
            return JobExists(f"job {subject!r} with unique key {got(unique)!r} is {state}", subject)
        case "kind":
            return ConfigError(f"limit {subject!r} is declared as {detail}, but this job uses it otherwise")
        case _:
            return ConfigError(f"limit {subject!r} is not declared; declare it in the app that enqueues")
