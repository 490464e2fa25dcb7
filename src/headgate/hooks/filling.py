"""Calling a task's function with its dependencies: making them, calling, and closing them in reverse order.

An async task has all of them made on the event loop. A synchronous one has its own thread: synchronous factories are
called and closed there, unless something on the loop needs what they make, so that a blocking connection is opened
where it is used. What a factory closes is told of the task's exception, and cannot swallow it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from headgate.hooks.context import JobContext
from headgate.hooks.dependencies import Factory, Plan, Step
from headgate.hooks.listeners import shown

log = logging.getLogger("headgate.hooks")

Values = dict[int, Any]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Filling:
    """One attempt's dependencies."""

    def __init__(self, plan: Plan, job: JobContext, kept: KeptDependencies) -> None:
        self._plan = plan
        self._job = job
        self._kept = kept
        self._values: Values = {}

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an async function with all that it needs."""
        return await self._around(
            range(len(self._plan.steps)), lambda: function(*args, **kwargs, **self._wanted())
        )

    async def call_in_thread(
        self, in_thread: InThread, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a synchronous function with all that it needs."""

        places = [place for place in range(len(self._plan.steps)) if place in self._plan.on_loop]
        return await self._around(places, lambda: in_thread(lambda: self._call(function, args, kwargs)))

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In the thread: make what is left to be made there, and call."""
        stack = ExitStack()
        try:
            for place, step in enumerate(self._plan.steps):
                if place not in self._plan.on_loop:
                    self._values[place] = self._enter(step, stack)
            result = function(*args, **kwargs, **self._wanted())
        except BaseException as error:
            stack.__exit__(type(error), error, error.__traceback__)
            raise
        stack.close()
        return result

    async def _around(self, places: Iterable[int], call: Callable[[], Awaitable[Any]]) -> Any:
        stack = AsyncExitStack()
        try:
            for place in places:
                self._values[place] = await self._make(self._plan.steps[place], stack)
            result = await call()
        except BaseException as error:
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        await stack.aclose()
        return result

    async def _make(self, step: Step, stack: AsyncExitStack) -> Any:
        if step.per == "process":
            return await self._kept.get(step, self._arguments(step))
        match step.shape.kind:
            case "coroutine":
                return await step.shape.call(**self._arguments(step))
            case "async_manager":
                return await stack.enter_async_context(step.shape.call(**self._arguments(step)))
            case _:
                return self._enter(step, stack)

    def _enter(self, step: Step, stack: AsyncExitStack | ExitStack) -> Any:
        made = step.shape.call(**self._arguments(step))
        return stack.enter_context(made) if step.shape.kind == "manager" else made

    def _arguments(self, step: Step) -> dict[str, Any]:
        return {name: self._job if need is None else self._values[need] for name, need in step.needs.items()}

    def _wanted(self) -> dict[str, Any]:
        return {name: self._values[place] for name, place in self._plan.wanted.items()}


class KeptDependencies:
    """What is made once per worker: when it is first needed, by a coroutine of its own that also closes it."""

    def __init__(self) -> None:
        self._kept: dict[Factory, Keeper] = {}
        self._context = contextvars.copy_context()

    async def get(self, step: Step, arguments: dict[str, Any]) -> Any:
        """The one there is, or a new one. A factory that failed is tried again by the next attempt that needs it."""
        keeper = self._kept.get(step.factory)
        if keeper is None or keeper.failed:
            self._kept.pop(step.factory, None)  # the order is that in which they are made
            keeper = self._kept[step.factory] = Keeper(step, arguments)
            keeper.start(self._context.copy())
        return await asyncio.shield(keeper.made)

    async def close(self) -> None:
        """Close all, the last one first."""
        for keeper in reversed(list(self._kept.values())):
            await keeper.close()
        self._kept.clear()


class Keeper:
    """Enters and leaves one dependency in the same coroutine, as some context managers demand."""

    def __init__(self, step: Step, arguments: dict[str, Any]) -> None:
        self.made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._step = step
        self._arguments = arguments
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def failed(self) -> bool:
        """Whether it could not be made."""
        return self.made.done() and (self.made.cancelled() or self.made.exception() is not None)

    def start(self, context: contextvars.Context) -> None:
        """Begin to make it; an attempt that gives up waiting does not end this. The context is no job's."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), context=context)

    async def close(self) -> None:
        """Close it. What that raises is logged: the attempts that used it have ended."""
        self._closing.set()
        if self._task is not None:
            if not self.made.done():
                self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                self.made.set_result(await self._make(stack))
                await self._closing.wait()
        except BaseException as error:
            if self.made.done():
                log.exception("what %s made could not be closed", shown(self._step.factory))
            elif isinstance(error, asyncio.CancelledError):
                self.made.cancel()
            else:
                self.made.set_exception(_carried(error))
                self.made.exception()  # seen, even if the attempt that asked for it is gone

    async def _make(self, stack: AsyncExitStack) -> Any:
        made = self._step.shape.call(**self._arguments)
        match self._step.shape.kind:
            case "function":
                return made
            case "coroutine":
                return await made
            case "manager":
                return stack.enter_context(made)
            case "async_manager":
                return await stack.enter_async_context(made)


def _carried(error: BaseException) -> BaseException:
    """A future refuses to carry StopIteration."""
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
