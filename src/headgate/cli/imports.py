"""`import`: jobs with their history, from JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from headgate.cli.exits import FAILED
from headgate.cli.options import AppDir, Factory, Json, Target, Url
from headgate.cli.store import find_app
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.engine.contract import ImportResult

RECORDS_PER_STEP = 500


def import_jobs(
    target: Target,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, one record a line; - reads standard input.")
    ],
    json: Json = False,
    url: Url = None,
    app_dir: AppDir = ".",
    factory: Factory = False,
) -> None:
    """Take over jobs with their history from another system. One bad record never stops the others.

    headgate import myproject.jobs:app history.jsonl
    export-jobs | headgate import myproject.jobs:app - --json

    A record:
      {"id": "a1", "task": "send", "args": {"to": "ada"},
       "enqueued_at": "2030-01-31T08:00:00Z",
       "attempts": [{"outcome": "failed", "started_at": "…",
                     "ended_at": "…", "error": "timeout"}]}
    Optional: args, attempts, enqueued_at, at, queue, tenant, priority,
    timeout, retention, unique, unique_for, on_conflict, expires, share,
    metadata, headers, retry, limits. A limit of the job's own, on top of its
    task's:
      {"name": "user", "max": 5, "key": 123, "max_waiting": 9}
      {"name": "api", "kind": "rate", "max": 100, "per": 60}

    --json prints one result a line: line, id, state, refused. Exits with 1 if
    any record was refused.
    """
    from headgate.cli.show import progress

    tally = _Tally(json)
    app = find_app(url, target, app_dir, factory=factory)
    with _lines(file) as (source, total), app, progress("import", total) as bar:
        for batch in _batched(source):
            records = [record for _, record in batch if isinstance(record, dict)]
            stored = iter(app.import_jobs_sync(records))
            for line, record in batch:
                tally.add(line, next(stored) if isinstance(record, dict) else record)
            bar.advance(len(batch))
    tally.close()


@contextmanager
def _lines(file: str) -> Generator[tuple[TextIO, int | None]]:
    """The open file, and how many lines it has, if that can be known."""
    if file == "-":
        yield sys.stdin, None
        return
    try:
        with open(file, encoding="utf-8") as opened:
            total = sum(1 for _ in opened)
            opened.seek(0)
            yield opened, total
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error}") from None


def _batched(source: Iterable[str]) -> Iterator[list[tuple[int, dict[str, Any] | str]]]:
    """Numbered records; in the place of one that is not a JSON object, what is wrong with it."""
    numbered = ((n, _record(text)) for n, text in enumerate(source, 1) if text.strip())
    while batch := list(islice(numbered, RECORDS_PER_STEP)):
        yield batch


def _record(text: str) -> dict[str, Any] | str:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return f"not a JSON object: {error}"


class _Tally:
    """Says what became of each record, and counts."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._taken = self._refused = 0

    def add(self, line: int, result: ImportResult | str) -> None:
        """One record's result; a text is the reason why it was not even tried."""
        refused = result if isinstance(result, str) else result.refused
        id, state = ("", None) if isinstance(result, str) else (result.id, result.state)
        self._taken += refused is None
        self._refused += refused is not None
        if self._json:
            from headgate.cli.show import json_line

            json_line({"line": line, "id": id, "state": state, "refused": refused})
        elif refused is not None:
            from headgate.cli.show import errors, readable

            words = f"line {line}{f', job {id}' if id else ''}: {refused}"
            errors().print(readable(words), markup=False, soft_wrap=True)

    def close(self) -> None:
        """The sum."""
        if not self._json:
            from headgate.cli.show import say

            say(f"{self._taken:,} imported, {self._refused:,} refused.")
        if self._refused:
            raise typer.Exit(FAILED)
