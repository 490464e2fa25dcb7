"""Stores that are not there or not ours: one clean line, the right exit code, nothing created."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.support.command_line import NEED_A_STORE, SHOP, Headgate


@pytest.mark.parametrize("command", NEED_A_STORE)
def test_a_store_that_is_not_there_is_not_created(headgate: Headgate, command: str) -> None:
    outcome = headgate(*command.split())
    assert outcome.code == 3
    assert outcome.out == ""
    assert outcome.err.startswith(f"headgate: no Headgate store at {headgate.file};")
    assert outcome.err.count("\n") == 1
    assert list(headgate.folder.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["redis://localhost:1", "postgresql://localhost:1/x", "redis+cluster://localhost:1"]
)
@pytest.mark.parametrize("command", NEED_A_STORE)
def test_a_server_is_asked_for_its_store_before_anything_is_opened(
    headgate: Headgate, monkeypatch: pytest.MonkeyPatch, command: str, url: str
) -> None:
    calls: list[str] = []

    class Empty:
        """An engine on a server without a store; it can tell, and nothing else may be asked of it."""

        async def version(self) -> int:
            calls.append("version")
            return 0

        async def close(self) -> None:
            calls.append("close")

    monkeypatch.setattr("headgate.app.app.make_engine", lambda *given: Empty())
    outcome = headgate(*command.split(), "--url", url)
    assert outcome.code == 3
    assert outcome.err.startswith(f"headgate: no Headgate store at {url}; name another with --url")
    assert calls == ["version", "close"]


def test_an_empty_file_is_no_store(headgate: Headgate) -> None:
    headgate.file.touch()
    assert headgate("jobs").code == 3
    assert headgate.file.stat().st_size == 0


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("jobs.db", "is not a URL"),
        ("mysql://host/db", "unknown scheme 'mysql'"),
        ("sqlite://jobs.db", "three slashes"),
        ("memory://", "inside one process"),
    ],
)
def test_a_url_that_cannot_work_is_a_usage_error(headgate: Headgate, url: str, words: str) -> None:
    outcome = headgate("jobs", "--url", url)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_database_of_another_program_is_refused(headgate: Headgate) -> None:
    connection = sqlite3.connect(headgate.file)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    outcome = headgate("jobs")
    assert outcome.code == 3
    assert "another program" in outcome.err


def test_a_file_that_is_no_database_is_refused(headgate: Headgate) -> None:
    headgate.file.write_text("dear diary, " * 200)
    outcome = headgate("jobs")
    assert outcome.code == 3
    assert "not a" in outcome.err


def test_a_newer_store_is_refused(store: Headgate) -> None:
    with closing(sqlite3.connect(store.file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA user_version = 999")
    outcome = store("jobs")
    with closing(sqlite3.connect(store.file)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    assert outcome.code == 3
    assert "999" in outcome.err


def test_a_folder_that_is_not_there_makes_the_store_unavailable(headgate: Headgate) -> None:
    outcome = headgate("migrate", "--url", "sqlite:///no/such/folder/jobs.db")
    assert outcome.code == 3
    assert "folder" in outcome.err


def test_without_a_url_the_default_store_is_meant(
    headgate: Headgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADGATE_URL")
    assert f"no Headgate store at {headgate.folder / 'headgate.db'};" in headgate("jobs").err
    assert headgate("migrate").code == 0
    assert headgate("jobs").out == "No jobs.\n"


def test_the_store_can_be_named_by_an_app(store: Headgate) -> None:
    store.enqueue("report")
    assert store("jobs", "--count", "--app", SHOP, "--url", store.url).out == "1\n"


def test_a_real_command_never_shows_a_traceback(headgate: Headgate) -> None:
    outcome = headgate.process("jobs")
    assert (outcome.code, outcome.out) == (3, "")
    assert "Traceback" not in outcome.err
    assert outcome.err.startswith("headgate: no Headgate store at ")


OTHER_KIND = """
from headgate import App, RateLimit

app = App()


@app.task(limits=[RateLimit(5, per=60, scope="customer")])
async def call() -> None: ...
"""


def test_a_limit_that_the_store_knows_as_another_kind_is_one_line(store: Headgate) -> None:
    store.enqueue("send", "to=ada")
    (store.folder / "other.py").write_text(OTHER_KIND)
    words = "limit 'customer' is declared as concurrency in this store, and now as rate"
    put = store.process("enqueue", "other:app", "call")
    assert (put.code, put.out) == (2, "")
    assert put.err.startswith(f"headgate: {words}")
    assert put.err.count("\n") == 1
    worker = store.process("worker", "other:app")
    assert worker.code == 3
    assert words in worker.err
    assert "Traceback" not in worker.err
    assert {limit["kind"] for limit in store("limits", "customer", "--json").documents} == {"concurrency"}
