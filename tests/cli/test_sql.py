"""`headgate sql`: tables for people, JSON and CSV for programs, and nothing changed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from headgate import App, ConcurrencyLimit
from tests.support.command_line import Headgate
from tests.support.stores import STORES, fresh_url

QUESTION = "select state, count(*) as jobs from jobs group by state order by state"


def three(store: Headgate) -> None:
    for name in ("ada", "bob", "eve"):
        store.enqueue("send", f"to={name}")


def test_an_answer_is_a_table_json_or_csv(store: Headgate) -> None:
    three(store)
    table = store("sql", QUESTION).out.splitlines()
    assert [line.split() for line in table if "─" not in line] == [
        ["state", "jobs"],
        ["ready", "1"],
        ["waiting", "2"],
    ]
    assert store("sql", "--json", QUESTION).documents == [
        {"state": "ready", "jobs": 1},
        {"state": "waiting", "jobs": 2},
    ]
    assert store("sql", "--csv", QUESTION).out == "state,jobs\nready,1\nwaiting,2\n"


def test_csv_keeps_what_has_commas_quotes_and_lines(store: Headgate) -> None:
    store.enqueue("send", 'to=a "b", c\nd')
    rows = list(
        csv.reader(io.StringIO(store("sql", "--csv", "select json_extract(args, '$.to') from jobs").out))
    )
    assert rows[1] == ['a "b", c\nd']


def test_a_question_comes_from_standard_input(store: Headgate) -> None:
    three(store)
    assert store("sql", "--csv", "-", input="select count(*) as n\nfrom jobs\n").out == "n\n3\n"


def test_rows_that_are_left_off_are_said_on_standard_error(store: Headgate) -> None:
    three(store)
    outcome = store("sql", "--json", "-n", "2", "select id from jobs")
    assert (len(outcome.documents), outcome.err) == (2, "There are more than 2 rows: --size shows more.\n")
    assert store("sql", "-n", "3", "select id from jobs").err == ""


def test_what_is_no_question_is_refused_and_nothing_is_changed(store: Headgate) -> None:
    three(store)
    for wrong in ("delete from jobs", "selekt", "select * from nothing", "", "select 1; select 2"):
        outcome = store("sql", wrong)
        assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1), wrong
    assert store("sql", "--json", "--csv", QUESTION).code == 2
    assert store("sql", "--json", "select 1 as a, 2 as a").code == 2
    assert store("sql", "--csv", "select count(*) as n from jobs").out == "n\n3\n"


def test_a_question_that_takes_too_long_is_ended(store: Headgate) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    outcome = store("sql", "--timeout", "200ms", endless)
    assert outcome.code in (2, 3)
    assert "0.2" in outcome.err


def test_no_rows_are_said(store: Headgate) -> None:
    assert store("sql", "select id from jobs").out == "No rows.\n"
    assert store("sql", "--json", "select id from jobs").out == ""


@pytest.mark.parametrize("kind", STORES)
def test_every_store_has_the_same_tables(kind: str, tmp_path: Path, headgate: Headgate) -> None:
    with fresh_url(kind, tmp_path) as url:
        with App(url) as app:
            limits = [ConcurrencyLimit(1, scope="printer", key="a")]
            for number in range(3):
                job = app.raw_job("print", {"order": number}, id=f"j{number}", queue="labels", limits=limits)
                app.enqueue_sync(job)
        asked = {
            "select id, state from jobs where state = 'waiting' order by id": [["j1", "waiting"], ["j2", "waiting"]],
            "select job from waiters where key = 'printer=a' order by job": [["j1"], ["j2"]],
            "select key, max, held, waiting from limits where key = 'printer=a'": [["printer=a", "1", "0", "2"]],
            "select name, ready, waiting from queues": [["labels", "1", "2"]],
            "select count(*) as n from holders": [["0"]],
        }  # fmt: skip
        for question, rows in asked.items():
            outcome = headgate("sql", "--csv", question, "--url", url)
            assert [line.split(",") for line in outcome.out.splitlines()[1:]] == rows, (question, outcome.err)
        for table in ("attempts", "overrides", "workers"):
            assert headgate("sql", f"select * from {table}", "--url", url).out == "No rows.\n"
