"""`sql`: a question to the store, in SQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import open_store
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.app.store_info import SqlResult


def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="One SELECT; - reads it from standard input.")
    ],
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV with a line of names instead of a table.")] = False,
    size: Annotated[int, typer.Option("--size", "-n", min=1, help="Show so many rows at most.")] = 1000,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="End a question that takes longer.")
    ] = "10s",
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Ask a store in SQL, reading only; the tables are the same on every store.

    headgate sql "select state, count(*) from jobs group by state"
    headgate sql "select key, job, since from holders where key = 'customer=42'"
    headgate sql --csv "select * from attempts where outcome = 'lost'" > lost.csv

    Tables: jobs, attempts, holders, waiters, limits, overrides, queues, workers.
    --json prints one row a line, by the names of its columns.
    """
    from headgate.cli.times import duration

    if json and csv:
        raise ConfigError("--json and --csv exclude each other")
    question = sys.stdin.read() if query == "-" else query
    seconds = duration(timeout, "--timeout")
    with open_store(url, app, factory=factory) as opened:
        found = opened.sql_sync(question, size=size, timeout=seconds)
    if json:
        _json(found)
    elif csv:
        _csv(found)
    else:
        _table(found)
    if found.more:
        from headgate.cli.show import errors

        errors().print(f"There are more than {size:,} rows: --size shows more.", markup=False)


def _json(found: SqlResult) -> None:
    from headgate.cli.show import json_line

    twice = next((name for name in found.columns if found.columns.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two columns are named {twice!r}; name one of them otherwise: … as other")
    for row in found.rows:
        json_line(dict(zip(found.columns, row, strict=True)))


def _csv(found: SqlResult) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.columns)
    writer.writerows(found.rows)


def _table(found: SqlResult) -> None:
    from headgate.cli.show import say, table

    if not found.rows:
        say("No rows.")
        return
    numbers = [name for place, name in enumerate(found.columns) if _numbers(found, place)]
    rows = [[_cell(value) for value in row] for row in found.rows]
    table(found.columns, rows, right=numbers)


def _numbers(found: SqlResult, place: int) -> bool:
    return all(row[place] is None or _is_number(row[place]) for row in found.rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> Any:
    """Numbers as they were asked for: what is computed with is not to be grouped by thousands."""
    return value if value is None else str(value)
