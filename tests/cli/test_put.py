"""Enqueueing and importing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import SHOP, Headgate


def test_arguments_are_a_json_object_or_pairs(headgate: Headgate) -> None:
    one = headgate.enqueue("send", '{"to": "ada", "customer": 2}')
    two = headgate.enqueue("send", "to=ada", "customer=2")
    three = headgate.enqueue("send", 'to="2"')
    assert headgate("job", one, "--json").document["args"] == {"to": "ada", "customer": 2}
    assert headgate("job", two, "--json").document["args"] == {"to": "ada", "customer": 2}
    assert headgate("job", three, "--json").document["args"] == {"to": "2"}


def test_options_reach_the_job(headgate: Headgate) -> None:
    options = ["--priority", "3", "--tenant", "acme", "--unique", "u", "--id", "mine", "--queue", "slow"]
    assert headgate.enqueue("send", "to=ada", "--at", "2930-01-31T08:00:00+01:00", *options) == "mine"
    job = headgate("job", "mine", "--json").document
    assert (job["priority"], job["tenant"], job["unique"], job["queue"]) == (3, "acme", "u", "slow")
    assert (job["state"], job["due"]) == ("scheduled", "2930-01-31T07:00:00Z")


def test_people_read_a_sentence(headgate: Headgate) -> None:
    outcome = headgate("enqueue", SHOP, "report", "--id", "r", "--url", headgate.url)
    assert outcome.out == "Job r is ready.\n"


def test_a_unique_key_that_is_taken_returns_the_other_job(headgate: Headgate) -> None:
    id = headgate.enqueue("send", "to=ada", "--unique", "u")
    again = headgate("enqueue", SHOP, "send", "to=bob", "--unique", "u", "--url", headgate.url, "--json")
    assert again.document == {"id": id, "created": False, "state": "ready"}
    spoken = headgate("enqueue", SHOP, "send", "to=bob", "--unique", "u", "--url", headgate.url)
    assert "Nothing was enqueued." in spoken.out


def test_an_id_that_exists_is_a_failure(headgate: Headgate) -> None:
    headgate.enqueue("report", "--id", "r")
    outcome = headgate("enqueue", SHOP, "report", "--id", "r", "--url", headgate.url)
    assert outcome.code == 1
    assert "'r' exists already" in outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "has no task 'nothing'; it has: fail, report, send"),
        (["send"], "needs 'to'"),
        (["send", "to=a", "x=1"], "no parameter 'x'"),
        (["send", "to=1"], "Expected `str`, got `int`"),
        (["send", "to"], "write name=value"),
        (["send", '{"to": '], "not a JSON object"),
        (["send", "[1]"], "not a JSON object"),
        (["send", "to=a", "--priority", "100"], "0 (first) to 99"),
        (["send", "to=a", "--delay", "soon"], "a duration such as"),
        (["send", "to=a", "--at", "2030-01-31T08:00:00"], "no time zone"),
        (["send", "to=a", "--at", "2930-01-31T08:00:00Z", "--delay", "5"], "exclude each other"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_stored(
    headgate: Headgate, words: list[str], message: str
) -> None:
    headgate("migrate")
    outcome = headgate("enqueue", SHOP, *words, "--url", headgate.url)
    assert outcome.code == 2
    assert message in outcome.err
    assert headgate("jobs", "--count").out == "0\n"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("tests.support.cli_shop:nothing", "did you mean tests.support.cli_shop:app?"),
        ("tests.support.cli_shop:not_an_app", "not an App"),
        ("tests/support/cli_shop.py", "is a file name"),
    ],
)
def test_an_app_that_cannot_be_found_is_a_usage_error(headgate: Headgate, target: str, message: str) -> None:
    outcome = headgate("enqueue", target, "send")
    assert outcome.code == 2
    assert message in outcome.err


def test_waiting_ends_when_time_is_up(headgate: Headgate) -> None:
    outcome = headgate("enqueue", SHOP, "report", "--wait", "0.05", "--url", headgate.url)
    assert outcome.code == 1
    assert "still ready after 0.05 s" in outcome.err


def test_a_job_that_did_not_end_in_time_is_told_as_json(headgate: Headgate) -> None:
    outcome = headgate("enqueue", SHOP, "report", "--wait", "0.05", "--url", headgate.url, "--json")
    assert outcome.code == 1
    assert list(outcome.document) == ["id", "created", "state", "error"]
    assert outcome.document["state"] == "ready"
    assert outcome.err == f"headgate: {outcome.document['error']}\n"


ENDED = {"started_at": "2026-01-31T08:00:00Z", "ended_at": "2026-01-31T08:00:05Z"}
GOOD: list[dict[str, Any]] = [
    {"id": "new", "task": "send", "args": {"to": "ada"}},
    {"id": "done", "task": "send", "args": {"to": "bob"}, "attempts": [{"outcome": "succeeded", **ENDED}]},
]


def test_records_are_imported_with_their_history(headgate: Headgate, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in GOOD))
    outcome = headgate("import", SHOP, str(file), "--url", headgate.url)
    assert (outcome.code, outcome.out, outcome.err) == (0, "2 imported, 0 refused.\n", "")
    assert headgate("job", "done", "--json").document["state"] == "succeeded"


def test_bad_records_are_named_by_line_and_stop_nobody(headgate: Headgate) -> None:
    lines = [json.dumps(GOOD[0]), "", "not json", '{"id": "x", "task": "nothing"}', json.dumps(GOOD[1]), "[]"]
    text = "\n".join(lines)
    outcome = headgate("import", SHOP, "-", "--url", headgate.url, "--json", input=text)
    assert outcome.code == 1
    results = outcome.documents
    assert [(r["line"], r["id"], r["state"], r["refused"] is None) for r in results] == [
        (1, "new", "ready", True),
        (3, "", None, False),
        (4, "x", None, False),
        (5, "done", "succeeded", True),
        (6, "", None, False),
    ]
    again = headgate("import", SHOP, "-", "--url", headgate.url, input=text)
    assert again.code == 1
    assert "line 3: not a JSON object" in again.err
    assert "line 5, job done: " in again.err
    assert again.out == "0 imported, 5 refused.\n"


def test_more_records_than_one_batch_are_imported(headgate: Headgate) -> None:
    text = "\n".join(
        json.dumps({"id": f"j{n}", "task": "send", "args": {"to": "a", "customer": n}}) for n in range(1200)
    )
    assert (
        headgate("import", SHOP, "-", "--url", headgate.url, input=text).out == "1,200 imported, 0 refused.\n"
    )
    assert headgate("audit").code == 0


def test_a_file_that_is_not_there_is_a_usage_error(headgate: Headgate) -> None:
    outcome = headgate("import", SHOP, "nothing.jsonl", "--url", headgate.url)
    assert outcome.code == 2
    assert "nothing.jsonl" in outcome.err
