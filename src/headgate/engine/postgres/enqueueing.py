"""The call that stores jobs, for our own connections and for those of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.json import decode

from headgate.engine.contract import Enqueued, Limit, Settings
from headgate.engine.postgres import rows
from headgate.engine.postgres.errors import full
from headgate.engine.postgres.importing import keep
from headgate.engine.postgres.rows import read_state
from headgate.engine.postgres.scripts import quoted
from headgate.engine.postgres.wire import Numbers, got, put, put_if, put_key
from headgate.errors import ConfigError, HeadgateError, JobExists
from headgate.job import NewJob
from headgate.keys import Key

TYPES = (
    "text[]", "text[]", "text[]", "text[]", "text[]", "smallint[]", "bigint[]", "bigint[]", "text[]", "bigint[]",
    "text[]", "text[]", "text[]", "text[]", "bigint[]", "integer[]", "text[]", "bigint[]", "text[]", "boolean[]",
    "json", "bigint", "bigint", "bigint[]", "text", "boolean", "json",
)  # fmt: skip
"""Of the parameters of `_enqueue`: drivers that send texts need them."""
TYPES_OF_ONE = (
    "text", "text", "text", "text", "text", "smallint", "bigint", "bigint", "text", "bigint", "text", "text",
    "bigint", "text", "bigint", "text", "bigint", "text", "boolean", "bigint", "bigint", "bigint", "text", "boolean",
)  # fmt: skip
"""Of those of `_enqueue_one`."""


class Dialect(NamedTuple):
    """How a driver writes placeholders, and hides what must not look like one."""

    placeholder: str = "${}"
    escape: Callable[[str], str] = str

    def call(self, schema: str, function: str, types: Sequence[str]) -> str:
        """The statement that calls a function."""
        places = ", ".join(
            f"CAST(CAST({place} AS text) AS {kind})" if _numbers(kind) else f"CAST({place} AS {kind})"
            for place, kind in (
                (self.placeholder.format(number), kind) for number, kind in enumerate(types, 1)
            )
        )
        return f"SELECT * FROM {self.escape(quoted(schema))}.{function}({places})"


def _numbers(kind: str) -> bool:
    return kind.endswith("[]") and kind != "text[]"


OURS = Dialect()


def enqueue_call(schema: str, dialect: Dialect = OURS) -> str:
    """The statement that stores jobs."""
    return dialect.call(schema, "_enqueue", TYPES)


def enqueue_values(
    jobs: Sequence[NewJob],
    limits: Sequence[Limit],
    settings: Settings,
    now: int | None,
    by: str | None,
    notify: bool | None,
) -> tuple[Any, ...]:
    """Its parameters. `notify` True calls sleepers when the caller's transaction commits."""
    values: tuple[Any, ...] = (
        *rows.enqueued(jobs), rows.declared(limits), now, settings.reservation_ttl, keep(settings), by, notify,
        rows.more(jobs),
    )  # fmt: skip
    return tuple(
        Numbers.of(value) if _numbers(kind) else value for value, kind in zip(values, TYPES, strict=True)
    )


def one_call(schema: str, dialect: Dialect = OURS) -> str:
    """The statement that stores one simple job."""
    return dialect.call(schema, "_enqueue_one", TYPES_OF_ONE)


def one_values(
    jobs: Sequence[NewJob], now: int | None, by: str | None, notify: bool | None
) -> tuple[Any, ...] | None:
    """Its parameters; None for several jobs, or one that needs more than one key."""
    job = jobs[0] if len(jobs) == 1 else None
    if job is None or job.unique is not None or len(job.uses) > 1:
        return None
    use = job.uses[0] if job.uses else None
    name = put(Key.of(use.key).name) if use else None
    needs = (put_key(use.key), use.units, name, use.number) if use else (None, None, None, None)
    return (
        put(job.id), put(job.task), put(job.queue), put(job.args), put(job.tenant), job.priority, job.delay, job.at,
        rows.write_retry(job.retry), job.timeout, put_if(job.metadata), put_if(job.headers),
        job.retention, *needs, put_if(job.share), job.charge == "time" or None, job.start_by, job.start_within, now, by,
        notify,
    )  # fmt: skip


def one_result(job: NewJob, row: Any) -> Enqueued:
    """What became of it, or the error that says why nothing did."""
    problem: str | None = row["problem"]
    if problem is None:
        return Enqueued(job.id, read_state(row["state"]), True)
    if problem == "full":
        subject = row["subject"]
    else:
        subject = job.id if problem == "exists" else Key.of(job.uses[0].key).name
    raise problem_of(problem, subject, row["detail"])


def enqueue_result(jobs: Sequence[NewJob], row: Any) -> list[Enqueued]:
    """What became of the jobs, or the error that says why nothing did."""
    if row["problem"] is not None:
        raise problem_of(row["problem"], got(row["subject"]), row["detail"])
    states, rivals = row["states"] or (), row["rivals"]
    if rivals is None:
        known = [read_state(each) for each in states]
        return [
            Enqueued(job.id, state, True)
            for job, state in zip(jobs, known * len(jobs) if len(known) == 1 else known, strict=True)
        ]
    return [
        Enqueued(job.id if rival is None else got(rival), read_state(state), rival is None)
        for job, state, rival in zip(jobs, states, rivals, strict=True)
    ]


def problem_of(problem: str, subject: str, detail: str) -> HeadgateError:
    """Why nothing was stored."""
    match problem:
        case "exists":
            return JobExists(f"a job with id {subject!r} exists already; nothing was enqueued", subject)
        case "rival":
            state, _, unique = detail.partition(" ")
            return JobExists(f"job {subject!r} with unique key {got(unique)!r} is {state}", subject)
        case "started":
            return JobExists(f"job {subject!r} with unique key {got(detail)!r} has started already", subject)
        case "task":
            task, unique = decode(detail)
            return JobExists(
                f"job {subject!r} with unique key {got(unique)!r} is of task {got(task)!r}", subject
            )
        case "full":
            return full(subject, int(detail))
        case "kind":
            return ConfigError(f"limit {subject!r} is declared as {detail}, but this job uses it otherwise")
        case _:
            return ConfigError(f"limit {subject!r} is not declared; declare it in the app that enqueues")
