"""Engines on one file in a temporary folder; every test ends with the audit of it."""

# ruff: noqa: ASYNC240 — the files are small, and nothing else runs on the loop

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.engine.contract import Settings
from headgate.engine.rules.audit import audit
from headgate.engine.sqlite import SqliteEngine

OpenEngine = Callable[..., Awaitable[SqliteEngine]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file will be."""
    return tmp_path / "jobs.db"


@pytest.fixture
async def open_engine(path: Path) -> AsyncIterator[OpenEngine]:
    """Opens engines on the file; they are closed and the file is audited at the end."""
    engines: list[SqliteEngine] = []

    async def make(settings: Settings | None = None, at: Path | None = None, **options: Any) -> SqliteEngine:
        engine = SqliteEngine(at or path, settings, **options)
        await engine.open()
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        await engine.close()
    if engines:
        await check_audit(path)


@pytest.fixture
async def engine(open_engine: OpenEngine) -> SqliteEngine:
    """An open engine."""
    return await open_engine()


def writer(engine: SqliteEngine) -> Any:
    """The connection that an engine last wrote through, as apsw has it."""
    assert engine._file is not None
    return engine._file._writer.connection


def reader(engine: SqliteEngine) -> Any:
    """The connection that an engine last read through."""
    assert engine._file is not None
    return engine._file._reader.connection


async def check_audit(path: Path) -> None:
    """The file obeys the rules."""
    if not os.path.exists(path):
        return
    engine = SqliteEngine(path)
    await engine.open()
    try:
        assert audit(await engine.snapshot()) == []
    finally:
        await engine.close()
