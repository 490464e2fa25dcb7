"""An app that was used before a fork works in the child, too."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from headgate import App

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def test_a_forked_child_opens_the_store_for_itself(tmp_path: Path):
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def double(n: int) -> int:
            return n * 2

        before = double.enqueue_sync(1)
        context = multiprocessing.get_context("fork")
        ids = context.SimpleQueue()

        def child() -> None:
            ids.put(double.enqueue_sync(2).id)
            ids.put(str(app.run_until_idle_sync()))

        process = context.Process(target=child)
        process.start()
        process.join(30)
        assert process.exitcode == 0
        id, ran = ids.get(), ids.get()
        assert ran == "2"
        assert before.result_sync(timeout=10) == 2
        assert app.handle(id).result_sync(timeout=10) == 4


@pytest.mark.parametrize("hold", ["client", "limits", "sync_loop", "engine"])
def test_a_child_that_was_forked_while_a_thread_was_opening_the_store_opens_it_itself(
    tmp_path: Path, hold: str
):
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(max_concurrent=1)
    def double(n: int) -> int:
        return n * 2

    double.enqueue_sync(0)
    client = app._client  # pyright: ignore[reportPrivateUsage]
    engine: Any = app.sync_loop.run(client.engine())
    locks = {
        "client": client._lock,  # pyright: ignore[reportPrivateUsage]
        "limits": client.limits._lock,  # pyright: ignore[reportPrivateUsage]
        "sync_loop": app.sync_loop._lock,  # pyright: ignore[reportPrivateUsage]
        "engine": engine._opening,
    }
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: double.enqueue_sync(1))
    with locks[hold]:  # as a thread of the parent would, which the child has not got
        if hold == "client":
            client._opening = Future()  # pyright: ignore[reportPrivateUsage]
        process.start()
    client._opening = None  # pyright: ignore[reportPrivateUsage]
    process.join(30)
    assert process.exitcode == 0
    assert app.count_sync() == 2
    app.close_sync()
