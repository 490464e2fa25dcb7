"""Pausing queues and setting limits."""

from __future__ import annotations

import pytest

from tests.support.command_line import Headgate


def test_a_queue_is_paused_and_resumed(store: Headgate) -> None:
    assert store("pause", "email").out == "Queue 'email' is paused now.\n"
    assert store("pause", "email").out == "Queue 'email' is paused already.\n"
    assert store("resume", "email", "--json").document == {"queue": "email", "paused": False, "changed": True}
    assert store("resume", "email", "--json").document == {
        "queue": "email",
        "paused": False,
        "changed": False,
    }


def test_a_key_is_closed_explained_and_opened(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    closed = store("limit", "set", "customer=1", "0", "--why", "on holiday", "--by", "ops", "--until", "2h")
    assert closed.out == "customer=1 is closed now.\n"
    store.work()
    assert "set by ops: on holiday" in store("explain", id).out
    (row,) = [limit for limit in store("limits", "--json").documents if limit["key"] == "customer=1"]
    assert (row["max"], row["declared"]) == (0, 1)
    assert list(row["override"]) == ["max", "by", "at", "why", "until"]
    assert "on holiday" in store("limits").out
    assert "is gone" in store("limit", "clear", "customer=1").out
    store.work()
    assert store("job", id, "--json").document["state"] == "succeeded"


def test_a_limit_is_raised_lifted_and_given_per_tenant(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    assert store("limit", "set", "customer", "5").out == "customer is limited to 5 now.\n"
    assert store("limit", "set", "customer", "none").out == "customer is without a limit now.\n"
    answer = store("limit", "set", "customer", "2", "--tenant", "acme", "--json").document
    assert answer == {"key": "customer", "max": 2, "tenant": "acme", "changed": True}
    cleared = store("limit", "clear", "customer", "--tenant", "acme", "--json").document
    assert cleared == {"key": "customer", "tenant": "acme", "changed": True}


def test_clearing_what_is_not_set_is_a_failure(store: Headgate) -> None:
    outcome = store("limit", "clear", "customer")
    assert outcome.code == 1
    assert "has no override" in outcome.err
    assert store("limit", "clear", "customer", "--json").code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["customer", "many"], "a whole number from 0 is needed, or none"),
        (["customer", "5", "--until", "soon"], "a duration such as"),
        (["customer", "5", "--until", "2030-01-31T08:00:00"], "no time zone"),
        (["customer", "5", "--until", "2030-31-31"], "write a time"),
        (["customer", "-1"], "MAX cannot be below 0: 0 closes the limit"),
        (["customer", "-1.5", "--json"], "MAX cannot be below 0"),
        (["customer", "5", "--untl", "2h"], "No such option"),
        (["customer", "5", "--until", "2001-01-31T08:00:00Z"], "would end at once"),
        (["customer", "5", "--until", "0"], "would end at once"),
        (["task:send=5", "5"], "the cap of task 'send' has no keys"),
        (["task:send", "5", "--tenant", "acme"], "shared by all tenants"),
        (["nobody", "5"], "no limit is named 'nobody'"),
    ],
)
def test_wrong_values_are_usage_errors(store: Headgate, words: list[str], message: str) -> None:
    store.enqueue("send", "to=ada")
    outcome = store("limit", "set", *words)
    assert outcome.code == 2
    assert message in outcome.err


def test_an_override_can_end_at_a_given_time(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    assert store("limit", "set", "customer", "5", "--until", "2930-01-31T08:00:00Z").code == 0
    assert store("limits", "customer", "--json").documents[0]["override"]["until"] == "2930-01-31T08:00:00Z"
