"""Every statement finds its rows through an index; what may scan or sort is named here, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from headgate.engine.sqlite.connection import Connection, connect
from headgate.engine.sqlite.migrate import migrate
from headgate.engine.sqlite.statements import listed, sections

NAMES = sorted(sections())
FOR_PEOPLE = {
    "adopt": "a new cap on a task or queue counts everything that runs",
    "all_holders": "the audit reads everything",
    "all_numbers": "the table of limits",
    "count": "a filter may match anything",
    "drop_all": "mends a row that cannot be read: what it holds is not known",
    "find": "a filter may match anything",
    "find_among": "a filter may match anything",
    "in_states": "for people: the jobs of a state in the order of their arrival",
    "waiting_for": "for people: the jobs that wait on some keys, in the order of their arrival",
    "held_counts": "the table of limits",
    "line_counts": "the table of queues; counts as far as it is told to",
    "queue_oldest": "the table of queues",
    "totals": "the overview; counts as far as it is told to",
    "unfinished": "the audit reads everything",
    "virtual_times": "the audit reads everything",
    "waiting_counts": "the table of limits",
}
"""Looked at, never in the way of a job: these may scan."""

FEW = {
    "history": "for people: the spans of a day",
    "holders_of": "for people: the holders of one key",
    "last_in_line": "the queues that have waiters on one key",
    "longest_running": "the holders of one key",
    "lapsed": "the workers that have lapsed at this instant",
    "running_of": "what one worker runs",
    "running_pairs": "what one worker runs",
}
"""What is sorted here is small by its nature."""

SMALL_TABLES = {
    "declared_weights", "gates", "limits", "overrides", "paused", "paused_schedules", "slices", "timers", "unsettled",
    "weights", "workers",
}  # fmt: skip
"""Tables with a row per limit, queue, periodic task, worker, weighted share or throttled key, or (timers) scanned by
the audit alone."""

JOBS_AND_HOLDERS = re.compile(r"^SCAN (jobs|holders|attempts|numbers|means|meters|starts|c|h|j|n|o)\b")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A migrated file, never analysed: the planner has no statistics, as in production."""
    connection = connect(str(tmp_path_factory.mktemp("plans") / "jobs.db"), "NORMAL", 0)
    migrate(connection, "jobs.db", 0)
    yield connection
    connection.close()


def plan(connection: Connection, name: str) -> list[str]:
    """The steps of a statement's plan."""
    text = f"EXPLAIN QUERY PLAN {listed(name, 3)}"
    numbered = [int(number) for number in re.findall(r"\?(\d+)", text)]
    count = max(numbered, default=0) + len(
        re.findall(r"\?(?!\d)", text)
    )  # a plain ? counts on from the largest
    return [row[3] for row in connection.execute(text, (None,) * count)]


def header(name: str) -> str:
    """The comment that a statement begins with."""
    return " ".join(line[2:].strip() for line in sections()[name].splitlines() if line.startswith("--"))


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(FOR_PEOPLE)))
def test_no_statement_of_the_hot_path_scans_what_grows(name: str, connection: Connection):
    assert [step for step in plan(connection, name) if JOBS_AND_HOLDERS.match(step)] == []


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(FOR_PEOPLE)))
def test_no_statement_of_the_hot_path_scans_a_table_without_being_allowed_to(
    name: str, connection: Connection
):
    scanned = {match[1] for step in plan(connection, name) if (match := re.match(r"SCAN (\w+)$", step))}
    # Recursive steps read their own short queue; r and k are JSON parameters; v has a row per queue with shares.
    assert scanned - {"k", "p", "q", "r", "s", "t", "v", "w", "json_each", "CONSTANT"} <= SMALL_TABLES


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(FOR_PEOPLE) - set(FEW)))
def test_no_statement_of_the_hot_path_sorts(name: str, connection: Connection):
    assert [step for step in plan(connection, name) if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("name", [name for name in NAMES if "Reads:" in header(name)])
def test_a_statement_reads_through_the_indexes_that_its_header_names(name: str, connection: Connection):
    steps = " ; ".join(plan(connection, name))
    promised = re.findall(
        r"\b(?:numbers|means|jobs|holders|meters|starts|timers|workers)_\w+",
        header(name).partition("Reads:")[2],
    )
    for index in promised:
        assert re.search(rf"INDEX {index}\b", steps), f"{name} does not use {index}: {steps}"
    if "by primary key" in header(name):
        assert "USING PRIMARY KEY" in steps
    if "by rowid" in header(name):
        assert "INTEGER PRIMARY KEY" in steps
    if "unique index on id" in header(name):
        assert "sqlite_autoindex_jobs_1" in steps


@pytest.mark.parametrize("name", [name for name in NAMES if "Writes: jobs by rowid" in header(name)])
def test_a_statement_that_writes_jobs_finds_them_by_number(name: str, connection: Connection):
    steps = plan(connection, name)
    assert any(re.match(r"SEARCH jobs USING INTEGER PRIMARY KEY", step) for step in steps), steps


def test_every_exception_in_this_file_is_still_a_statement():
    assert {*FOR_PEOPLE, *FEW} <= set(NAMES)


def test_every_partial_index_is_used_by_some_statement(connection: Connection):
    indexes = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
        )
    ]
    plans = " ; ".join(step for name in NAMES for step in plan(connection, name))
    assert [index for index in indexes if index not in plans] == []


def test_the_library_is_one_that_keeps_files_whole():
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
