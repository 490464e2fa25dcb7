"""Dependencies of tasks in a process of the pool: made there, since they cannot travel.

A task's function is called in the main thread. What needs an event loop is made on one in another thread, which is
started when it is first needed.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from headgate.hooks.context import JobContext
from headgate.hooks.dependencies import Plan
from headgate.hooks.filling import Filling, KeptDependencies

CLOSING = 1.5
"""Seconds for closing what is kept, when the process ends."""

Answer = tuple[Any, BaseException | None]
Call = tuple[Callable[[], Any], "asyncio.Future[Answer]"]


class DependenciesLoop:
    """Calls functions with what they depend on; keeps what is made once per process."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: KeptDependencies | None = None
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()

    def call(
        self,
        plan: Plan,
        context: JobContext,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a function with all that it needs; from the main thread."""
        loop = self._loop or self._start()
        whole = asyncio.run_coroutine_threadsafe(self._fill(plan, context, function, args, kwargs), loop)
        whole.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._calls.get()) is not None:
            _answer(loop, *call)
        value, error = whole.result()
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Close what is kept."""
        if self._loop is not None and self._kept is not None:
            asyncio.run_coroutine_threadsafe(self._kept.close(), self._loop).result(CLOSING)

    async def _fill(
        self,
        plan: Plan,
        context: JobContext,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Answer:
        if self._kept is None:
            self._kept = KeptDependencies()
        filling = Filling(plan, context, self._kept)
        try:
            return await filling.call_in_thread(self._in_main_thread, function, args, kwargs), None
        except BaseException as error:  # as a value: SystemExit would end the loop
            return None, error

    async def _in_main_thread(self, call: Callable[[], Any]) -> Any:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._calls.put((call, answer))
        value, error = await answer
        if error is not None:
            raise error
        return value

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="headgate-pool-loop", daemon=True).start()
        return loop


def _answer(loop: asyncio.AbstractEventLoop, call: Callable[[], Any], answer: asyncio.Future[Answer]) -> None:
    """Call, and bring what came of it to the loop. Exceptions travel as values: a future may not carry all of them."""
    try:
        came: Answer = call(), None
    except BaseException as error:
        came = None, error
    loop.call_soon_threadsafe(answer.set_result, came)
