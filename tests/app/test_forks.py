"""An app that was used before a fork works in the child, too."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

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
