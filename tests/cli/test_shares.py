"""Fair shares, expiry, costs and numbers of keys on the command line."""

from __future__ import annotations

import pytest

from headgate.testing import use_store
from tests.support import cli_flow
from tests.support.command_line import Headgate

FLOW = "tests.support.cli_flow:app"


def enqueue(store: Headgate, *words: str) -> str:
    return store("enqueue", FLOW, "ask", *words, "--json", "--url", store.url).document["id"]


def test_shares_are_listed_weighed_and_cleared(store: Headgate) -> None:
    enqueue(store, "--tenant", "acme")
    assert store("share", "set", "zeta", "0.5", "--by", "ops", "--why", "a crawler").out == (
        "Share 'zeta' has weight 0.5 now.\n"
    )
    listed = store("share", "list", "--json").documents
    assert [(one["share"], one["weight"], one["pending"]) for one in listed] == [
        ("acme", 2, 1),
        ("zeta", 0.5, 0),
    ]
    table = store("share", "list").out
    assert "by ops: a crawler" in table
    assert store("share", "list", "-n", "1").out.endswith("--after acme\n")
    assert store("share", "set", "acme", "3", "--json").document == {
        "share": "acme",
        "weight": 3,
        "changed": True,
    }
    assert store("share", "clear", "zeta", "--json").document == {"share": "zeta", "changed": True}
    cleared = store("share", "clear", "zeta")
    assert (cleared.code, "has no weight" in cleared.err) == (1, True)


@pytest.mark.parametrize("weight", ["0", "much", "-1"])
def test_a_weight_that_is_none_is_a_usage_error(store: Headgate, weight: str) -> None:
    assert store("share", "set", "acme", "--", weight).code == 2


def test_a_job_is_enqueued_with_expiry_share_and_a_key_for_a_time(store: Headgate) -> None:
    words = ("--share", "vip", "--expires", "1h", "--unique", "k", "--unique-for", "5m")
    id = enqueue(store, *words)
    shown = store("job", id, "--json").document
    assert (shown["share"], shown["unique"], shown["expires"] is None) == ("vip", "k", False)
    page = store("job", id).out
    assert "it is cancelled if it has not started by" in page
    assert "vip" in page
    assert "share vip, expires in" in store("jobs").out
    refused = store("enqueue", FLOW, "ask", "--unique-for", "5m")
    assert (refused.code, "belongs to unique=" in refused.err) == (2, True)


def test_limits_show_the_tokens_that_are_left(store: Headgate) -> None:
    enqueue(store, "estimate=10")
    with use_store(cli_flow.app, store.url):
        cli_flow.app.run_until_idle_sync()
    (row,) = [one for one in store("limits", "--json").documents if one["name"] == "tokens"]
    assert (row["tokens"], row["next_at"] is None) == (0, False)
    assert "0 tokens, the next in" in store("limits", "tokens").out


def test_limits_say_what_happens_where_there_is_no_room(store: Headgate) -> None:
    assert "no room" not in store("limits").out
    store("enqueue", FLOW, "knock", "--url", store.url)
    rows = {one["name"]: one for one in store("limits", "--json").documents}
    door, pace = rows["door"], rows["knock"]
    assert (door["when_full"], door["max_waiting"], door["on_overflow"]) == ("replace", None, None)
    assert (pace["when_full"], pace["max_waiting"], pace["on_overflow"]) == (None, 7, "refuse")
    table = " ".join(store("limits").out.split())
    assert "no room" in table
    assert "at most 7 waiting, beyond that newcomers are refused" in table
    assert "a newcomer that finds no slot replaces those that wait" in table
