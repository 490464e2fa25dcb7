"""Asking a source in SQL: the question runs on a thread of its own, and reads on the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import apsw

from headgate.engine.contract import Rows
from headgate.engine.tables.question import Question
from headgate.engine.tables.source import Source
from headgate.engine.tables.virtual import create_tables

T = TypeVar("T")


async def ask(source: Source, sql: str, limit: int, timeout: int) -> Rows:
    """Answer a question over the virtual tables of a source."""
    question = Question(sql, limit, timeout)
    bridge = Bridge(question)

    def answer() -> Rows:
        connection: Any = apsw.Connection(":memory:")
        try:
            connection.execute("PRAGMA temp_store = MEMORY")
            create_tables(connection, source, bridge.wait)
            return question.answer(connection)
        finally:
            connection.close()

    return await bridge.on_thread(answer)


class Bridge:
    """Between the thread that runs a question and the event loop on which the source reads."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._loop = asyncio.get_running_loop()
        self._reading: Future[Any] | None = None

    async def on_thread(self, answer: Callable[[], Rows]) -> Rows:
        """Run it on a thread of its own: one from a pool might be missed elsewhere for seconds."""
        executor = ThreadPoolExecutor(1, "headgate-sql")
        try:
            return await self._loop.run_in_executor(executor, copy_context().run, answer)
        finally:
            self._stop()
            executor.shutdown(wait=False)

    def _stop(self) -> None:
        """The caller was cancelled, or has its answer: the thread is not to go on."""
        self._question.stop()
        if self._reading is not None:
            self._reading.cancel()

    def wait(self, read: Coroutine[Any, Any, T]) -> T:
        """Run a read on the event loop; called on the thread."""
        if self._question.over:
            read.close()
            raise self._question.too_long()
        self._reading = reading = asyncio.run_coroutine_threadsafe(read, self._loop)
        if self._question.stopped:
            reading.cancel()
        try:
            return reading.result(self._question.left)
        except (TimeoutError, CancelledError):
            reading.cancel()
            raise self._question.too_long() from None
