"""A server that goes and comes back, or comes late: callers and workers wait for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from headgate import App
from tests.support import postgres_server
from tests.support.child import ROOT
from tests.support.postgres_server import PostgresProcess
from tests.support.redis_servers import RedisProcess, binary
from tests.support.waiting import eventually, stays

KINDS = [*(["valkey"] if binary("valkey") else []), *(["postgres"] if postgres_server.available() else [])]
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
SHOP = """
import os
from headgate import App
app = App(os.environ["HEADGATE_URL"])

@app.task
async def work() -> int:
    return os.getpid()
"""


class Server(Protocol):
    """A server of the test's own."""

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that runs."""
    if request.param == "postgres":
        made: PostgresProcess | RedisProcess = PostgresProcess()
        made.start()
    else:
        program = binary(request.param)
        assert program is not None
        made = RedisProcess(program, *DURABLE)
    try:
        yield made
    finally:
        made.stop()


def url_of(server: Server) -> str:
    return server.url() if isinstance(server, PostgresProcess) else str(getattr(server, "url"))  # noqa: B009


async def test_waiting_for_a_result_rides_out_a_restart_of_the_server(server: Server):
    app, began, finish = App(url_of(server)), asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        began.set()
        await finish.wait()
        return "done"

    async with app, app.worker(lease=10):
        handle = await work.enqueue()
        waiting = asyncio.create_task(handle.result(timeout=20))
        await began.wait()
        await asyncio.to_thread(server.kill)
        await stays(lambda: not waiting.done(), "its calls fail", 0.5)
        await asyncio.to_thread(server.start)
        finish.set()
        assert await waiting == "done"
        assert (await handle.info()).attempt == 1


@pytest.mark.slow
def test_worker_processes_wait_for_a_server_that_is_not_there_yet(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "late_shop.py").write_text(SHOP)
    monkeypatch.setenv("HEADGATE_URL", url_of(server))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    server.kill()
    log = tmp_path / "log"
    command = [sys.executable, "-m", "headgate", "worker", "late_shop:app", "--processes", "2"]
    with log.open("wb") as file:
        supervisor = subprocess.Popen(command, cwd=tmp_path, stderr=file)
    try:
        eventually(lambda: log.read_text().count("cannot be reached") >= 2, "both children to try", 20)
        threading.Thread(target=server.start).start()
        app = App(url_of(server))

        @app.task
        async def work() -> int:
            return 0

        eventually(lambda: workers(app) == 2, "both children to register", 20)
        assert work.enqueue_sync().result_sync(timeout=20) != 0
        app.close_sync()
        assert supervisor.poll() is None
    finally:
        supervisor.terminate()
        supervisor.wait(20)
    assert "starting it again" not in log.read_text(), "no child ended meanwhile"


def workers(app: App) -> int:
    try:
        return len(app.workers_sync())
    except Exception:
        return -1
