"""What went wrong, grouped; found by error and time; run again with other arguments."""

from __future__ import annotations

import pytest

from tests.support.command_line import SHOP, Headgate


@pytest.fixture
def broken(store: Headgate) -> Headgate:
    store.enqueue("fail", "why=no user 12")
    store.enqueue("fail", "why=no user 77")
    store.enqueue("fail", "why=out of paper")
    store.work()
    return store


def test_failures_are_grouped_by_task_and_error(broken: Headgate) -> None:
    users, paper = broken("failures", "--json").documents
    assert (users["task"], users["count"], users["pattern"]) == ("fail", 2, "ValueError: no user …")
    assert (paper["count"], paper["error"]) == (1, "ValueError: out of paper")
    shown = broken("failures").out
    assert "ValueError: no user …" in shown
    assert users["ids"][0] in shown


def test_a_look_at_failures_says_where_it_stopped(broken: Headgate) -> None:
    assert "there are older ones" in broken("failures", "-n", "2").out
    assert "older" not in broken("failures", "-n", "3").out


def test_without_failures_it_says_so(store: Headgate) -> None:
    assert store("failures").out == "No failed jobs.\n"
    assert store("failures", "--json").out == ""


def test_jobs_are_found_by_error_and_time(broken: Headgate) -> None:
    assert broken("jobs", "--error", "no user", "--count").out == "2\n"
    assert broken("jobs", "--error", "no%user", "--count").out == "0\n"
    assert broken("jobs", "--since", "1h", "--count").out == "3\n"
    assert broken("jobs", "--until", "1h", "--count").out == "0\n"
    assert (
        broken("failures", "--since", "2020-01-01T00:00:00Z", "--error", "paper", "--json").document["count"]
        == 1
    )
    outcome = broken("jobs", "--since", "yesterday")
    assert (outcome.code, "--since 'yesterday'" in outcome.err) == (2, True)


def test_a_group_is_restarted_by_what_its_errors_have_in_common(broken: Headgate) -> None:
    users = broken("failures", "--json").documents[0]
    outcome = broken("restart", "--task", "fail", "--error", users["common"], "--since", "1h", "--yes")
    assert outcome.out == "2 jobs restarted.\n"


def test_a_job_is_restarted_with_other_arguments(store: Headgate) -> None:
    id = store.enqueue("send", "to=nobody", "--unique", "one")
    store("cancel", id)
    outcome = store(
        "restart", id, "--set", "to=eve@example.com", "--set", "customer=7", "--app", SHOP, "--url", store.url
    )
    assert (outcome.code, outcome.out) == (0, f"Job {id} restarted with other arguments.\n")
    job = store("job", id, "--json").document
    assert (job["args"], job["limits"]) == ({"to": "eve@example.com", "customer": 7}, ["customer=7"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["x", "y", "--set", "to=a", "--app", SHOP], "for one job"),
        (["--task", "send", "--set", "to=a", "--app", SHOP], "for one job"),
        (["x", "--set", "to=a"], "--app"),
    ],
)
def test_other_arguments_are_refused_where_they_make_no_sense(
    store: Headgate, words: list[str], text: str
) -> None:
    outcome = store("restart", *words)
    assert (outcome.code, text in outcome.err) == (2, True), outcome.err


def test_other_arguments_that_do_not_fit_are_refused(store: Headgate) -> None:
    id = store.enqueue("send", "to=nobody")
    store("cancel", id)
    outcome = store("restart", id, "--set", "customer=many", "--app", SHOP, "--url", store.url)
    assert (outcome.code, "customer" in outcome.err) == (2, True)
    assert store("job", id, "--json").document["state"] == "cancelled"
