"""Opening: which files are taken, which are refused, and what a refusal leaves behind."""

# ruff: noqa: ASYNC240 — the files are small, and nothing else runs on the loop

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from headgate import App
from headgate.engine.contract import Worker
from headgate.engine.sqlite import SqliteEngine, connection
from headgate.engine.sqlite.migrate import APPLICATION_ID, migrations
from headgate.errors import ConfigError, EngineUnavailable, HeadgateError, SchemaMismatch
from headgate.job import JobState, NewJob
from tests.sqlite.conftest import OpenEngine, writer
from tests.support.child import Child


async def refused(path: Path, error: type[HeadgateError], message: str) -> None:
    """Opening and migrating raise the same; the engine can be closed and tried again afterwards."""
    engine = SqliteEngine(path)
    for verb in (engine.open, engine.migrate, lambda: engine.enqueue([NewJob(id="j", task="t")])):
        with pytest.raises(error, match=message):
            await verb()
    await engine.close()


def foreign(path: Path, *statements: str) -> None:
    """A SQLite file of another program."""
    other = apsw.Connection(str(path))
    for statement in statements:
        other.execute(statement)
    other.close()


# ── files that are not ours ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 4\0" + b"\1" * 5000])
async def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(path: Path, content: bytes):
    path.write_bytes(content)
    await refused(path, SchemaMismatch, "is not a SQLite database")
    assert path.read_bytes() == content
    assert sorted(os.listdir(path.parent)) == ["jobs.db"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE notes (text)",
        "PRAGMA user_version = 7",
        "PRAGMA application_id = 99",
        "CREATE VIEW v AS SELECT 1",
    ],
)
async def test_another_programs_database_is_refused_and_left_alone(path: Path, statement: str):
    foreign(path, statement)
    content = path.read_bytes()
    await refused(path, SchemaMismatch, "another program")
    assert path.read_bytes() == content


async def test_a_newer_schema_is_refused_and_left_alone(path: Path, engine: SqliteEngine):
    await engine.enqueue([NewJob(id="j", task="t")])
    await engine.close()
    foreign(path, f"PRAGMA user_version = {len(migrations()) + 1}")
    content = path.read_bytes()
    await refused(path, SchemaMismatch, "upgrade Headgate")
    assert path.read_bytes() == content
    foreign(path, f"PRAGMA user_version = {len(migrations())}")
    assert await engine.states(["j"]) == [JobState.READY]


async def test_an_empty_file_is_taken(path: Path, open_engine: OpenEngine):
    path.touch()
    engine = await open_engine()
    await engine.enqueue([NewJob(id="j", task="t")])
    assert await engine.states(["j"]) == [JobState.READY]


async def test_a_damaged_file_says_that_it_is_damaged(tmp_path: Path):
    path = tmp_path / "damaged.db"
    engine = SqliteEngine(path)
    await engine.enqueue([NewJob(id=f"j{n}", task="t") for n in range(500)])
    await engine.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(EngineUnavailable, match="damaged"):
        await engine.enqueue([NewJob(id="new", task="t")])
    with pytest.raises(EngineUnavailable, match="damaged"):
        await engine.states(["j1"])
    await engine.close()


# ── places where no file can be ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path):
    await refused(tmp_path / "nowhere" / "jobs.db", EngineUnavailable, "does its folder exist")
    assert os.listdir(tmp_path) == []


async def test_a_folder_in_the_place_of_the_file_is_refused(path: Path):
    path.mkdir()
    await refused(path, EngineUnavailable, "cannot be opened")


async def test_a_file_in_the_place_of_the_folder_is_refused(path: Path):
    path.write_text("x")
    await refused(path / "jobs.db", EngineUnavailable, "cannot be opened")


async def test_an_engine_works_once_the_reason_of_the_refusal_is_gone(
    tmp_path: Path, open_engine: OpenEngine
):
    engine = SqliteEngine(tmp_path / "later" / "jobs.db")
    with pytest.raises(EngineUnavailable):
        await engine.open()
    (tmp_path / "later").mkdir()
    await engine.enqueue([NewJob(id="j", task="t")])
    assert await engine.states(["j"]) == [JobState.READY]
    await engine.close()


@pytest.mark.parametrize(
    "name",
    [
        "with space.db",
        "100%.db",
        "%41.db",
        "ä ö 日本 🚪.db",
        "q?x=1.db",
        "a#b.db",
        "file:uri.db",
        "quo'te\".db",
        "-dash",
    ],
)
async def test_any_file_name_is_that_file(tmp_path: Path, name: str, open_engine: OpenEngine):
    engine = await open_engine(at=tmp_path / name)
    await engine.enqueue([NewJob(id="j", task="t")])
    await engine.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    "name", ["with space.db", "100%25.db", "%C3%A4%20%F0%9F%9A%AA.db", "q%3Fx.db", "a%23b.db"]
)
async def test_a_url_names_any_file_with_percent_signs(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    async with App(f"sqlite:///{name}") as app:
        assert (await app.audit()).ok
    names = {
        "with space.db": "with space.db",
        "100%25.db": "100%.db",
        "q%3Fx.db": "q?x.db",
        "a%23b.db": "a#b.db",
    }
    assert os.listdir(tmp_path) == [names.get(name, "ä 🚪.db")]


@pytest.mark.parametrize(
    "tail", ["?nonsense=1", "?synchronous=fast", "?synchronous=", "#part", "?clock=1", "?path=x"]
)
def test_a_wrong_option_in_the_url_is_refused_when_the_app_is_made(tail: str):
    with pytest.raises(ConfigError):
        App(f"sqlite:///jobs.db{tail}")


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────────────────

TRY = """
async def main():
    engine = SqliteEngine(sys.argv[1])
    try:
        await engine.enqueue([NewJob(id="child", task="t")])
        say("stored")
    except Exception as error:
        say([type(error).__name__, str(error)])
    finally:
        await engine.close()
asyncio.run(main())
"""


def bound_by_permissions() -> list[str]:
    """What makes a process obey file permissions: root does not, unless it gives that power up."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("runs as root and has no setpriv to give up its power over permissions")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]


def read_only_file(path: Path) -> None:
    path.chmod(0o444)


def read_only_folder(path: Path) -> None:
    path.parent.chmod(0o555)


def read_only_folder_and_file(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
@pytest.mark.parametrize("restrict", [read_only_file, read_only_folder, read_only_folder_and_file])
@pytest.mark.parametrize("there", [True, False])
async def test_what_cannot_be_written_is_refused_and_works_once_it_can(
    tmp_path: Path, there: bool, restrict: Callable[[Path], None]
):
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "jobs.db"
    engine = SqliteEngine(path)
    if there:
        await engine.enqueue([NewJob(id="j", task="t")])
        await engine.close()
    elif restrict is not read_only_folder:
        path.touch()
    restrict(path)
    try:
        with Child(TRY, path, prefix=bound_by_permissions()) as child:
            kind, message = child.hear()
    finally:
        folder.chmod(0o755)
        for each in folder.iterdir():  # SQLite gives the files beside its own the same rights
            each.chmod(0o644)
    assert kind == "EngineUnavailable"
    assert str(path) in message
    await engine.enqueue([NewJob(id="later", task="t")])
    assert await engine.states(["child", "later"]) == [None, JobState.READY]
    await engine.close()


# ── the library and its settings ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_sqlite_that_may_corrupt_files_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection.apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(EngineUnavailable, match=r"SQLite 3\.51\.2 can corrupt"):
        await SqliteEngine(path).open()
    assert not os.path.exists(path)


@pytest.mark.parametrize(("given", "level"), [("NORMAL", 1), ("full", 2), ("FULL", 2)])
async def test_durability_is_set_on_every_connection_that_writes(
    given: str, level: int, open_engine: OpenEngine
):
    engine = await open_engine(synchronous=given)
    await engine.enqueue([NewJob(id="j", task="t")])
    assert int(writer(engine).pragma("synchronous")) == level


async def test_the_file_is_in_wal_mode_and_marked_as_ours(engine: SqliteEngine, path: Path):
    await engine.close()
    other = apsw.Connection(str(path))
    assert other.pragma("journal_mode") == "wal"
    assert other.pragma("application_id") == APPLICATION_ID
    assert other.pragma("integrity_check") == "ok"
    other.close()


# ── migrating ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_migrating_twice_does_nothing_the_second_time(path: Path, open_engine: OpenEngine):
    engine = SqliteEngine(path)
    newest = len(migrations())
    assert await engine.migrate() == (0, newest)
    assert await engine.migrate() == (newest, newest)
    opened = await open_engine()
    assert await opened.migrate() == (newest, newest)


async def test_a_migration_that_breaks_leaves_the_file_as_it_was(
    path: Path, open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
):
    broken = (*migrations(), "CREATE TABLE half (x); CREATE TABLE jobs (x)")
    with monkeypatch.context() as patch:
        patch.setattr("headgate.engine.sqlite.migrate.migrations", lambda: broken)
        with pytest.raises(apsw.SQLError):
            await SqliteEngine(path).open()
    other = apsw.Connection(str(path))
    assert other.execute("SELECT count(*) FROM sqlite_schema").get == 0
    assert other.pragma("user_version") == 0
    other.close()
    await open_engine()


OPEN_ON_CALL = """
async def main():
    say("here")
    while (path := hear()):
        engine = SqliteEngine(path)
        try:
            await engine.open()
            await engine.enqueue([NewJob(id=f"job-{os.getpid()}", task="t")])
            say("ok")
        except Exception as error:
            say(repr(error))
        await engine.close()
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 8])
async def test_processes_that_create_one_file_at_the_same_moment_all_succeed(tmp_path: Path, processes: int):
    children = [Child(OPEN_ON_CALL) for _ in range(processes)]
    try:
        assert [child.hear() for child in children] == ["here"] * processes
        for number in range(25):
            path = tmp_path / f"{number}.db"
            for child in children:
                child.tell(str(path))
            assert [child.hear() for child in children] == ["ok"] * processes
            engine = SqliteEngine(path)
            states = await engine.states([f"job-{child.pid}" for child in children])
            assert states == [JobState.READY] * processes
            await engine.close()
    finally:
        for child in children:
            child.close()


async def test_many_engines_of_one_process_create_one_file_together(open_engine: OpenEngine):
    engines = await asyncio.gather(*(open_engine() for _ in range(8)))
    await asyncio.gather(*(engine.enqueue([NewJob(id=str(n), task="t")]) for n, engine in enumerate(engines)))
    assert await engines[0].states([str(n) for n in range(8)]) == [JobState.READY] * 8


# ── the file goes away ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_is_deleted_under_us_is_not_written_to_any_more(engine: SqliteEngine, path: Path):
    await engine.enqueue([NewJob(id="before", task="t")])
    moved = path.with_suffix(".moved")
    os.rename(path, moved)
    with pytest.raises(EngineUnavailable, match="deleted or replaced"):
        await engine.enqueue([NewJob(id="lost?", task="t")])
    with pytest.raises(EngineUnavailable, match="deleted or replaced"):
        await engine.states(["before"])
    assert not os.path.exists(path)
    os.rename(moved, path)
    assert await engine.states(["before", "lost?"]) == [JobState.READY, None]
    await engine.enqueue([NewJob(id="after", task="t")])


async def test_a_file_that_is_replaced_under_us_is_taken_up_after_opening_again(
    engine: SqliteEngine, path: Path, tmp_path: Path, open_engine: OpenEngine
):
    await engine.enqueue([NewJob(id="old", task="t")])
    other = SqliteEngine(tmp_path / "other.db")
    await other.enqueue([NewJob(id="new", task="t")])
    await other.close()
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        os.unlink(tmp_path / name)
    os.rename(tmp_path / "other.db", path)
    with pytest.raises(EngineUnavailable, match="restart"):
        await engine.enqueue([NewJob(id="lost?", task="t")])
    await engine.close()
    await engine.open()
    assert await engine.states(["old", "new", "lost?"]) == [None, JobState.READY, None]


async def test_a_process_that_changes_its_folder_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    engine = SqliteEngine("jobs.db")
    await engine.enqueue([NewJob(id="a", task="t")])
    monkeypatch.chdir(tmp_path / "elsewhere")
    await engine.enqueue([NewJob(id="b", task="t")])
    await engine.close()
    assert await engine.states(["a", "b"]) == [JobState.READY] * 2
    await engine.close()
    assert os.listdir(tmp_path / "elsewhere") == []


async def test_a_file_of_the_first_version_is_brought_up_to_date_with_all_that_it_holds(path: Path):
    old = apsw.Connection(str(path))
    old.execute("PRAGMA journal_mode = WAL")
    old.execute(migrations()[0])
    old.execute(
        "INSERT INTO jobs (id, task, queue, tenant, priority, due, state, enqueued_at, args, retry) "
        "VALUES ('j', 't', 'q', '', 50, 1, 'ready', 1, '{}', '[3,1000000,2.0,5,0.0]')"
    )
    old.execute("INSERT INTO starts (key, at, units) VALUES ('r0:W', 1, 1)")
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute("PRAGMA user_version = 1")
    old.close()
    engine = SqliteEngine(path)
    assert await engine.migrate() == (1, len(migrations()))
    await engine.open()
    await engine.register(Worker("w", frozenset({"t"})))
    (attempt,) = (await engine.exchange("w", [], 1, number=1)).attempts
    assert (attempt.job, attempt.suspicion, attempt.retry.losses) == ("j", 0, 5)
    await engine.close()
