"""The log is copied into the file beside the writer, and begins anew; it never grows without end."""

from __future__ import annotations

import struct
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate.engine.contract import Filter
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine, checkpoints
from headgate.job import NewJob

LONG, STEP, TOO_LONG = 60, 20, 240


@pytest.fixture
async def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteEngine]:
    monkeypatch.setattr(checkpoints, "LONG", LONG)
    monkeypatch.setattr(checkpoints, "STEP", STEP)
    monkeypatch.setattr(checkpoints, "TOO_LONG", TOO_LONG)
    engine = SqliteEngine(tmp_path / "jobs.db")
    await engine.open()
    yield engine
    assert audit(await engine.snapshot()) == []
    await engine.close()


class Log:
    """What the log's own header and length say."""

    def __init__(self, engine: SqliteEngine) -> None:
        self.path = Path(f"{engine.path}-wal")
        self.engine = engine
        self.count = 0

    @property
    def beginnings(self) -> int:
        """How often it has begun anew."""
        return struct.unpack(">I", self.path.read_bytes()[12:16])[0]

    @property
    def pages(self) -> int:
        """The most it ever had."""
        return (self.path.stat().st_size - 32) // (4096 + 24)

    async def grow(self, commits: int = 1) -> None:
        """Commit something; each commit leaves the other thread time to copy."""
        for _ in range(commits):
            self.count += 1
            await self.engine.enqueue([NewJob(f"j{self.count}", "t", args='{"text":"' + "x" * 9000 + '"}')])
            await self.engine.count(Filter())  # stands in line behind a copy that was asked for


def copies(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext
) -> list[str]:
    """The names of the threads that copied, as it happens; `meanwhile` is what goes on around a copy."""
    threads: list[str] = []
    copy: Any = checkpoints._copy

    def noted(connection: Any) -> None:
        threads.append(threading.current_thread().name)
        with meanwhile():
            copy(connection)

    monkeypatch.setattr(checkpoints, "_copy", noted)
    return threads


async def test_the_log_is_copied_beside_the_writer_and_begins_anew(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, threads = Log(engine), copies(monkeypatch)
    first = log.beginnings
    await log.grow(200)
    assert log.beginnings >= first + 5
    assert log.pages < LONG + STEP + 20
    assert set(threads) == {"headgate-sqlite-read"}
    assert await engine.count(Filter()) == 200


async def test_what_is_written_while_the_log_is_copied_is_left_to_the_writer(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = apsw.Connection(engine.path), apsw.Connection(engine.path)

    @contextmanager
    def another_commits() -> Generator[None]:
        """A reader keeps the copy from reaching what is written just now."""
        if threading.current_thread().name == "headgate-sqlite-write":
            yield
            return
        reader.execute("BEGIN; SELECT count(*) FROM jobs").fetchall()
        writer.execute("INSERT INTO paused (queue) VALUES (hex(randomblob(8)))")
        yield
        reader.execute("COMMIT")

    log, threads = Log(engine), copies(monkeypatch, another_commits)
    first = log.beginnings
    await log.grow(200)
    reader.close()
    writer.close()
    assert log.beginnings >= first + 5
    assert log.pages < LONG + STEP + 20
    assert threads[:4] == ["headgate-sqlite-read", "headgate-sqlite-write"] * 2


async def test_the_writer_copies_itself_when_nobody_else_comes_to_it(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, threads = Log(engine), copies(monkeypatch)
    monkeypatch.setattr(engine._opened()._checkpoints, "_copy_beside", lambda: None)
    first = log.beginnings
    await log.grow(200)
    assert set(threads) == {"headgate-sqlite-write"}
    assert log.beginnings > first
    assert TOO_LONG <= log.pages < TOO_LONG + 40


async def test_a_long_look_at_the_file_holds_the_log_up_and_costs_few_tries(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, threads = Log(engine), copies(monkeypatch)
    await log.grow()
    first = log.beginnings
    other = apsw.Connection(engine.path)
    other.execute("BEGIN; SELECT count(*) FROM jobs").fetchall()
    await log.grow(100)
    assert log.beginnings == first, "what a reader needs is not overwritten"
    tries = len(threads)
    assert 2 <= tries <= 2 * (log.pages - LONG) / STEP + 2, "not with every commit"
    other.execute("COMMIT")
    other.close()
    await log.grow(20)
    assert log.beginnings > first
