"""What an app has hung around the work of one worker: its lifespan around all of it, middleware around each attempt,
and inside of that the dependencies of the task.

A synchronous task that has something around it is driven by a coroutine, like any other, and has a thread kept for it
from its start. Only the call of the function itself is made there, in a copy of the coroutine's context: what
middleware sets is seen by the task. Nothing can interrupt that call; cancelling waits for its end.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from headgate.engine.contract import Attempt
from headgate.errors import HeadgateError
from headgate.hooks.events import WorkerEvent, WorkerEventName
from headgate.hooks.filling import Filling, KeptDependencies
from headgate.hooks.hooks import Hooks
from headgate.hooks.lifespan import entered
from headgate.hooks.middleware import around
from headgate.job import INTERNAL_QUEUE
from headgate.worker.job_events import JobEvents
from headgate.worker.options import Options
from headgate.worker.run.process_calls import ProcessCalls
from headgate.worker.run.running_attempt import RunningAttempt
from headgate.worker.run.threads import Threads

log = logging.getLogger("headgate.worker")

Answer = tuple[Any, BaseException | None]


class Surroundings:
    """The hooks of an app, as one run of a worker uses them."""

    def __init__(self, hooks: Hooks, options: Options, threads: Threads) -> None:
        self.state: Any = None
        self.jobs = JobEvents(hooks.listeners)
        self._kept = KeptDependencies()
        self.middleware = hooks.middleware
        self.sealing = hooks.enqueueing.sealing
        self.carried = hooks.carried
        self._hooks = hooks
        self._options = options
        self._threads = threads

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """Around all of the work: the lifespan, and the events that tell of it."""
        async with entered(self._hooks.lifespan, self._hooks.app) as self.state:
            try:
                self._tell("worker_started")
                try:
                    yield
                finally:
                    self.jobs.in_doubt()
                    self._tell("worker_stopped")
            finally:
                await self.jobs.close()
                await self._kept.close()

    def around(self, attempt: Attempt) -> bool:
        """Whether middleware and dependencies concern this attempt: Headgate's own jobs have nothing around them."""
        return attempt.queue != INTERNAL_QUEUE

    async def call(
        self,
        run: RunningAttempt,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        processes: ProcessCalls | None = None,
    ) -> Any:
        """Call the attempt's function with all that is around it. In a process, its dependencies are made there."""

        async def innermost() -> Any:
            if processes is not None:
                return await processes.call(run)
            function = run.task.fn
            if dependencies := run.task.dependencies:
                plan = self._hooks.plan(run.task.name, dependencies)
                filling = Filling(plan, run.context, self._kept)
                if run.threaded:
                    in_thread = partial(self._call_in_thread, run)
                    return await filling.call_in_thread(in_thread, function, args, kwargs)
                return await filling.call(function, args, kwargs)
            if run.threaded:
                return await self._call_in_thread(run, lambda: function(*args, **kwargs))
            return await function(*args, **kwargs)

        return await around(tuple(self._hooks.middleware), run.context, innermost)

    async def _call_in_thread(self, run: RunningAttempt, call: Callable[[], Any]) -> Any:
        """Its thread is kept for it; so the function cannot be called twice at once."""
        if run.in_thread:
            raise HeadgateError("call_next() of a synchronous task was called again before it had ended")
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        answer = loop.create_future()
        run.in_thread = True
        self._threads.run(lambda: _answer(loop, answer, context, call))
        try:
            value, error = await self._until_it_ends(answer)
        finally:
            run.in_thread = False
        if error is not None:
            raise error
        return value

    async def _until_it_ends(self, answer: asyncio.Future[Answer]) -> Answer:
        """A thread goes on when its caller is cancelled; so the caller waits, unless the whole worker is gone."""
        cancelled: asyncio.CancelledError | None = None
        while not answer.done():
            try:
                await asyncio.shield(answer)
            except asyncio.CancelledError as error:
                if self._threads.closed:
                    raise
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return answer.result()

    def _tell(self, name: WorkerEventName) -> None:
        chosen = self._options
        event = WorkerEvent(
            name=name,
            worker=chosen.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=chosen.queues.named,
            concurrency=chosen.concurrency,
            at=datetime.now(UTC),
        )
        self.jobs.tell(event)


def _answer(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Answer],
    context: contextvars.Context,
    call: Callable[[], Any],
) -> None:
    """In the thread: call, and bring what came of it to the event loop. Exceptions travel as values: one future may
    not carry all of them."""
    try:
        came: Answer = context.run(call), None
    except BaseException as error:
        came = None, error
    try:
        loop.call_soon_threadsafe(_set, answer, came)
    except RuntimeError:  # the loop is closed: nothing waits for it any more
        return


def _set(answer: asyncio.Future[Answer], came: Answer) -> None:
    if not answer.done():
        answer.set_result(came)
