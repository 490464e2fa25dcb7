"""Looking: what people read and what programs read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from headgate import AuditReport
from headgate.engine.sqlite import SqliteEngine
from tests.support.command_line import Headgate

JOB_FIELDS = [
    "id",
    "task",
    "queue",
    "state",
    "args",
    "tenant",
    "priority",
    "due",
    "enqueued_at",
    "started_at",
    "ended_at",
    "limits",
    "waiting_on",
    "worker",
    "attempt",
    "tries",
    "suspicion",
    "lost",
    "retry",
    "unique",
    "expires",
    "share",
    "metadata",
    "headers",
    "cancel_requested",
    "error",
    "result",
    "progress",
    "attempts",
]
LIMIT_FIELDS = [
    "name",
    "key",
    "tenant",
    "kind",
    "max",
    "declared",
    "override",
    "held",
    "waiting",
    "per",
    "burst",
    "algorithm",
    "exact",
    "tokens",
    "next_at",
    "brought",
    "brought_before",
    "reason",
    "opens_at",
    "when_full",
    "max_waiting",
    "on_overflow",
]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("jobs", "No jobs."),
        ("queues", "No queue has unfinished jobs"),
        ("limits", "No limits are declared."),
        ("workers", "No workers."),
        ("audit", "No problems"),
    ],
)
def test_an_empty_store_is_said_to_be_empty(store: Headgate, command: str, words: str) -> None:
    outcome = store(command)
    assert outcome.code == 0
    assert words in outcome.out


@pytest.mark.parametrize("command", ["jobs", "queues", "limits", "workers"])
def test_an_empty_list_is_no_json_line_at_all(store: Headgate, command: str) -> None:
    assert store(command, "--json").out == ""


def test_jobs_lists_newest_first_with_what_matters(store: Headgate) -> None:
    first, second = store.enqueue("send", "to=ada"), store.enqueue("send", "to=bob")
    lines = store("jobs").out.splitlines()
    assert second in lines[2]
    assert "waits on customer=1" in lines[2]
    assert first in lines[3]
    assert "ready" in lines[3]


def test_jobs_as_json_has_a_documented_shape(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada", "--tenant", "acme", "--priority", "7")
    document = store("jobs", "--json").document
    assert list(document) == JOB_FIELDS
    assert document["id"] == id
    assert (document["task"], document["queue"], document["state"]) == ("send", "email", "ready")
    assert (document["args"], document["tenant"], document["priority"]) == ({"to": "ada"}, "acme", 7)
    assert document["limits"] == ["customer=1"]
    assert document["retry"] == {
        "attempts": 2,
        "delay": 60,
        "backoff": 2,
        "max_delay": 3600,
        "jitter": 0,
        "losses": 5,
    }


@pytest.mark.parametrize(
    ("filter", "count"),
    [
        ([], 4),
        (["--state", "waiting"], 1),
        (["--state", "waiting", "--state", "ready"], 4),
        (["--queue", "email"], 3),
        (["--task", "report"], 1),
        (["--tenant", "acme"], 1),
        (["--limit", "customer=1"], 1),
        (["--limit", "customer=2"], 0),
    ],
)
def test_jobs_are_filtered(store: Headgate, filter: list[str], count: int) -> None:
    for words in (["send", "to=a"], ["send", "to=b"], ["send", "to=c", "--tenant", "acme"], ["report"]):
        store.enqueue(*words)
    assert store("jobs", *filter, "--count").out == f"{count}\n"
    assert store("jobs", *filter, "--count", "--json").document == {"count": count}
    assert len(store("jobs", *filter, "--json").documents) == count


def test_jobs_come_in_pages(store: Headgate) -> None:
    ids = [store.enqueue("send", "to=a") for _ in range(3)]
    page = store("jobs", "-n", "2")
    assert f"2 of 3 jobs; the next page: --after {ids[1]}" in page.out
    rest = store("jobs", "-n", "2", "--after", ids[1], "--json").documents
    assert [job["id"] for job in rest] == [ids[0]]


def test_a_page_after_an_unknown_job_is_refused(store: Headgate) -> None:
    assert store("jobs", "--after", "nobody").code == 1


def test_an_unknown_state_is_a_usage_error(store: Headgate) -> None:
    outcome = store("jobs", "--state", "asleep")
    assert outcome.code == 2
    assert "scheduled, ready, waiting" in outcome.err


def test_job_shows_attempts_and_error(store: Headgate) -> None:
    id = store.enqueue("fail")
    store.work()
    shown = store("job", id)
    assert "failed" in shown.out
    assert "ValueError: it is broken" in shown.out
    (attempt,) = store("job", id, "--json").document["attempts"]
    assert list(attempt) == ["number", "outcome", "started_at", "ended_at", "worker", "error"]
    assert (attempt["number"], attempt["outcome"]) == (1, "failed")


def test_jobs_shows_the_first_line_of_an_error(store: Headgate) -> None:
    store.enqueue("fail", '{"why": "it is broken\\nand has been for long"}')
    store.work()
    assert store("jobs").out.splitlines()[2].endswith("   ValueError: it is broken")


def test_job_shows_a_result(store: Headgate) -> None:
    id = store.enqueue("send", "to=ada")
    store.work()
    assert '"sent to ada"' in store("job", id).out
    document = store("job", id, "--json").document
    assert list(document) == JOB_FIELDS
    assert document["result"] == "sent to ada"


@pytest.mark.parametrize("command", ["job", "explain"])
def test_an_unknown_job_is_a_failure(store: Headgate, command: str) -> None:
    outcome = store(command, "nobody")
    assert outcome.code == 1
    assert outcome.err == "headgate: there is no job 'nobody'; it may have been deleted, or never existed\n"


def test_explain_says_why_a_job_waits(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    id = store.enqueue("send", "to=bob")
    assert "waits on customer=1" in store("explain", id).out
    document = store("explain", id, "--json").document
    assert list(document) == ["id", "state", "sentence", "key", "tenant", "holders", "place", "earliest"]
    assert (document["state"], document["key"], document["place"]) == ("waiting", "customer=1", 1)


def test_queues_are_counted(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    store.enqueue("send", "to=bob")
    store.enqueue("send", "to=eve", "--delay", "1h")
    store("pause", "email")
    assert "paused" in store("queues").out
    document = store("queues", "--json").document
    assert datetime.fromisoformat(document.pop("oldest")) <= datetime.now(UTC)
    assert document == {
        "name": "email", "paused": True, "scheduled": 1, "ready": 1, "waiting": 1, "running": 0,
        "exact": True,
    }  # fmt: skip


def test_limits_show_names_and_then_their_keys(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    store.enqueue("send", "to=bob")
    documents: list[dict[str, Any]] = store("limits", "--json").documents
    assert all(list(document) == LIMIT_FIELDS for document in documents)
    assert {document["key"] for document in documents} >= {"api", "customer", "customer=1"}
    (rate,) = [document for document in documents if document["key"] == "api"]
    assert (rate["max"], rate["per"], rate["kind"]) == (1, 3600, "rate")
    table = store("limits", "customer").out
    assert "customer=1" in table
    assert "api" not in table
    assert "1 per 3600 s" in store("limits", "api").out


def test_limits_come_in_pages_for_people(store: Headgate) -> None:
    for tenant in ("acme", "o'hara"):
        for _ in range(2):
            store.enqueue("send", "to=a", "customer=7", "--tenant", tenant)
    every = store("limits", "--json").documents
    assert [limit["key"] for limit in every] == ["api", "customer", "customer=7", "customer=7"]
    first = store("limits", "-n", "3")
    assert "3 shown; the next page: --after customer=7 --after-tenant acme" in first.out
    rest = store("limits", "-n", "3", "--after", "customer=7", "--after-tenant", "acme")
    assert "o'hara" in rest.out
    assert "next page" not in rest.out
    assert "--after customer\n" in store("limits", "-n", "2").out
    shown = store("limits", "-n", "1", "--after", "customer", "--json").documents
    assert [limit["tenant"] for limit in shown] == ["acme"]
    assert store("limits", "--after", "customer=7", "--after-tenant", "o'hara").out == "No more.\n"
    assert store("limits", "--after-tenant", "acme").code == 2


def test_an_unknown_limit_is_a_failure(store: Headgate) -> None:
    assert store("limits", "nobody").code == 1


def test_control_characters_in_names_do_not_reach_the_terminal(store: Headgate) -> None:
    id = store.enqueue("send", '{"to": "x"}', "--id", "a\x1b[31mb", "--tenant", "t\nt")
    shown = store("jobs").out + store("job", id).out
    assert "\x1b" not in shown
    assert "a\\x1b[31mb" in shown
    assert store("jobs", "--json").document["id"] == id


def test_markup_in_names_is_shown_as_it_is(store: Headgate) -> None:
    store.enqueue("send", "to=a", "--id", "[bold]x[/bold]")
    assert "[bold]x[/bold]" in store("jobs").out
    assert "[bold]x[/bold]" in store("explain", "[bold]x[/bold]").out


def test_the_audit_s_repair_of_a_sound_store_mends_nothing(store: Headgate) -> None:
    store.enqueue("send", "to=a")
    store.enqueue("send", "to=b")
    outcome = store("audit", "--repair")
    assert outcome.code == 0
    assert outcome.out.startswith("Nothing had to be mended.\nNo problems")
    assert store("audit", "--repair", "--json").document == {"ok": True, "problems": [], "repaired": []}


@pytest.mark.parametrize(
    ("report", "words", "code", "said"),
    [
        (AuditReport(("p",)), [], 1, "1 problem:\np\n"),
        (AuditReport(("p", "q"), ("r",)), ["--repair"], 1, "1 thing mended:\nr\n2 problems left:\np\nq\n"),
        (AuditReport((), ("r", "s")), ["--repair"], 0, "2 things mended:\nr\ns\nNo problems"),
    ],
)
def test_the_audit_tells_what_is_wrong_and_what_was_mended(
    store: Headgate,
    monkeypatch: pytest.MonkeyPatch,
    report: AuditReport,
    words: list[str],
    code: int,
    said: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("headgate.app.app.App.audit_sync", lambda self, **given: report)
        outcome = store("audit", *words)
        document = store("audit", *words, "--json").document
    assert outcome.code == code
    assert outcome.out.startswith(said)
    assert document == {"ok": code == 0, "problems": [*report.problems], "repaired": [*report.repaired]}


def test_a_suspect_is_told_as_one(store: Headgate, monkeypatch: pytest.MonkeyPatch) -> None:
    id = store.enqueue("send", "to=a")
    shown = msgspec.structs.replace

    async def get(self: Any, ids: Any, before: Any = SqliteEngine.get) -> Any:
        return [shown(job, suspicion=3, lost=3) for job in await before(self, ids)]

    async def explain(self: Any, id: str, before: Any = SqliteEngine.explain, **given: Any) -> Any:
        facts = await before(self, id, **given)
        return shown(facts, job=shown(facts.job, suspicion=3, lost=3), serving=1, knowing=1)

    monkeypatch.setattr(SqliteEngine, "get", get)
    monkeypatch.setattr(SqliteEngine, "explain", explain)
    told = store("job", id).out
    assert "it was lost 3 times with its worker and may have ended it, so that it is tried alone" in told
    assert "3 of 5, suspicion 3" in told
    assert store("job", id, "--json").document["suspicion"] == 3
