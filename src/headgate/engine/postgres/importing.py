"""Import: the store shows and holds what is there, lifecycle.py decides, the store writes it down. One transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.engine.contract import ImportedJob, ImportResult, Limit, Settings
from headgate.engine.postgres.pools import Connection
from headgate.engine.postgres.reading import Reader
from headgate.engine.postgres.rows import (
    declared,
    history,
    is_state,
    read_state,
    to_json,
    unreadable,
    write_retry,
)
from headgate.engine.postgres.scripts import quoted
from headgate.engine.postgres.wire import got, put, put_error, put_if, put_key
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.lifecycle import Existing, Taken, take_import
from headgate.errors import HeadgateError
from headgate.job import NewJob, PastAttempt


class Import:
    """One import. Records are taken in waves in which no id and no unique key comes twice."""

    def __init__(
        self, connection: Connection, schema: str, settings: Settings, by: str | None, now: int
    ) -> None:
        self.connection = connection
        self.schema = schema
        self.settings = settings
        self.by = by
        self.now = now

    async def run(self, records: Sequence[ImportedJob], limits: Sequence[Limit]) -> list[ImportResult]:
        """Each record succeeds or is refused alone."""
        results: list[ImportResult] = []
        touched: list[str] = []
        async with self.connection.transaction():
            await self.connection.execute(
                f"SELECT {quoted(self.schema)}._import_hold($1, $2, $3)",
                to_json([_record(r) for r in records]),
                declared(limits),
                self.now,
            )
            book, _ = await Reader(self.connection, self.schema).book()
            pending = _waves(records) or [[]]
            for number, wave in enumerate(pending, 1):
                taken, touched = await self._wave(
                    wave, book, limits if number == 1 else (), touched, number == len(pending)
                )
                results += taken
        return results

    async def _wave(
        self,
        wave: Sequence[ImportedJob],
        book: RuleBook,
        limits: Sequence[Limit],
        touched: list[str],
        last: bool,
    ) -> tuple[list[ImportResult], list[str]]:
        shown = await self.connection.fetch(
            f"SELECT * FROM {quoted(self.schema)}._import_begin($1, $2)",
            to_json([_record(r) for r in wave]),
            self.now,
        )
        rows = sorted(shown, key=lambda row: row["n"])
        verdicts = [self._decide(record, row, book, limits) for record, row in zip(wave, rows, strict=True)]
        answer = await self.connection.fetchrow(
            f"SELECT * FROM {quoted(self.schema)}._import_end($1, $2, $3, $4, $5, $6, $7, $8)",
            to_json([_taken(*one) for one in zip(wave, rows, verdicts, strict=True)]),
            declared(limits),
            self.now,
            self.settings.reservation_ttl,
            keep(self.settings),
            self.by,
            touched,
            last,
        )
        for limit in limits:
            book.limits[limit.name] = limit
        results = [
            _result(record, row, verdict, state)
            for record, row, verdict, state in zip(wave, rows, verdicts, answer["states"], strict=True)
        ]
        return results, list(answer["touched"])

    def _decide(self, record: ImportedJob, row: Any, book: RuleBook, limits: Sequence[Limit]) -> Taken | str:
        if not row["made"] and not is_state(row["state"]):
            return unreadable(f"its state: {row['state']!r}")
        try:
            book.check_uses(record.job.uses, limits)
        except HeadgateError as error:
            return str(error)
        existing = (
            None if row["made"] else Existing(read_state(row["state"]), history(row["history"]), row["due"])
        )
        taken = take_import(record, existing, self.now)
        if isinstance(taken, str) or taken.state.ended:
            return taken
        if row["rival"] is not None and (existing is None or existing.state.ended):
            return (
                f"job {got(row['rival'])!r} with unique key {got(row['rival_key'])!r} is {row['rival_state']}"
            )
        return taken


def keep(settings: Settings) -> list[int]:
    """How long succeeded, failed and cancelled jobs are kept."""
    return [settings.keep_succeeded, settings.keep_failed, settings.keep_cancelled]


def _waves(records: Sequence[ImportedJob]) -> list[list[ImportedJob]]:
    waves: list[list[ImportedJob]] = []
    seen: set[tuple[str, ...]] = set()
    for record in records:
        marks: set[tuple[str, ...]] = {(record.job.id,)}
        if record.job.unique is not None:
            marks.add((record.job.tenant, record.job.unique))
        if not waves or marks & seen:
            waves.append([])
            seen = set()
        waves[-1].append(record)
        seen |= marks
    return waves


def _record(record: ImportedJob) -> dict[str, Any]:
    job = record.job
    return {
        "id": put(job.id), "task": put(job.task), "queue": put(job.queue), "args": put(job.args),
        "tenant": put(job.tenant), "priority": job.priority, "keys": [put_key(use.key) for use in job.uses] or None,
        "units": [use.units for use in job.uses] or None, "retry": write_retry(job.retry), "timeout": job.timeout,
        "unique_key": put_if(job.unique), "metadata": put_if(job.metadata), "headers": put_if(job.headers),
        "retention": job.retention,
        "enqueued_at": record.enqueued_at,
        "numbers": _numbers(job), "share": put_if(job.share), "by_time": job.charge == "time" or None,
        "updates": job.on_conflict == "update" or None, "unique_for": job.unique_for, "start_by": job.start_by,
        "start_within": job.start_within,
    }  # fmt: skip


def _numbers(job: NewJob) -> list[int | None] | None:
    numbers = [use.number for use in job.uses]
    return numbers if any(number is not None for number in numbers) else None


def _taken(record: ImportedJob, row: Any, verdict: Taken | str) -> dict[str, Any]:
    base = {"seq": row["seq"], "made": row["made"], "refused": isinstance(verdict, str)}
    if isinstance(verdict, str):
        return base
    return {
        **base, "state": str(verdict.state), "due": verdict.due, "tries": verdict.tries,
        "retry": write_retry(record.job.retry),
        "attempts": [_attempt(past) for past in verdict.attempts],
    }  # fmt: skip


def _attempt(past: PastAttempt) -> list[Any]:
    return [
        past.number,
        past.outcome,
        past.started_at,
        past.ended_at,
        put(past.worker),
        put_error(past.error),
    ]


def _result(record: ImportedJob, row: Any, verdict: Taken | str, state: str | None) -> ImportResult:
    there = None if row["made"] else read_state(row["state"])
    if isinstance(verdict, str):
        return ImportResult(record.job.id, there, verdict)
    if state is None:
        return ImportResult(
            record.job.id, there, f"an unfinished job has the unique key {record.job.unique!r}"
        )
    return ImportResult(record.job.id, read_state(state))
