"""A file, an app on it in this process, and worker processes that are gone at the end; then the audit."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from headgate import App
from tests.processes.record import Record
from tests.support.child import Child
from tests.support.stores import PROCESS_STORES, fresh_url
from tests.support.waiting import eventually

WORK = """
import logging
from tests.processes.shop import app
logging.disable(logging.CRITICAL)
options = json.loads(sys.argv[1])

async def main():
    worker = await app._worker(options)
    worker.on_event.append(lambda event: event.kind in ("registered", "fenced", "stopped") and say(event.kind))
    await worker.run(signals=True)
    await app.close()

asyncio.run(main())
"""


class Place:
    """A store with its record, and the processes that work there."""

    def __init__(self, folder: Path, shop: Any) -> None:
        self.folder = folder
        self.shop = shop
        self.app: App = shop.app
        self.record = Record(folder / "record")
        self.children: list[Child] = []
        self.killed: dict[int, int] = {}

    def child(self, script: str, *args: object) -> Child:
        """Another process on the same store."""
        child = Child(
            script,
            *args,
            HEADGATE_URL=self.app.url,
            HEADGATE_RECORD=str(self.record.path),
        )
        self.children.append(child)
        return child

    def worker(self, *, before: str = "", wait: bool = True, **options: Any) -> Child:
        """A worker process; returns when it is registered unless told not to wait."""
        child = self.child(before + WORK, json.dumps({"lease": 15, "grace": 5, **options}))
        if wait:
            assert child.hear() == "registered"
        return child

    def kill(self, child: Child) -> None:
        """kill -9, remembering when: what it ran ended then."""
        child.kill()
        self.killed[child.pid] = time.monotonic_ns()

    def integrity(self) -> str:
        """What SQLite itself says about its file."""
        if not self.app.url.startswith("sqlite"):
            return "ok"
        connection = apsw.Connection(str(self.folder / "jobs.db"))
        try:
            return str(connection.pragma("integrity_check"))
        finally:
            connection.close()

    def close(self) -> None:
        """End every process."""
        for child in self.children:
            child.close()


@pytest.fixture(params=PROCESS_STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where the jobs are kept."""
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def place(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place to work; audited when everybody has gone."""
    monkeypatch.setenv("HEADGATE_URL", store_url)
    monkeypatch.setenv("HEADGATE_RECORD", str(tmp_path / "record"))
    monkeypatch.delitem(sys.modules, "tests.processes.shop", raising=False)
    shop = importlib.import_module("tests.processes.shop")
    place = Place(tmp_path, shop)
    try:
        yield place
        report = place.app.audit_sync()
        assert report.ok, report.problems
        assert place.integrity() == "ok"
    finally:
        place.close()
        place.app.close_sync()
        sys.modules.pop("tests.processes.shop", None)


@pytest.fixture
def until_done(place: Place) -> Callable[..., None]:
    """Waits until no job is left to do."""

    def wait(patience: float = 60) -> None:
        unfinished = ["scheduled", "ready", "waiting", "running"]
        eventually(lambda: place.app.count_sync(state=unfinished) == 0, "all jobs to end", patience)

    return wait
