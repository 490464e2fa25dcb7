"""Listeners: functions that are told what happens, and can change nothing of it.

One mechanism for all of them, those of an app (`app.on`) and those of a single worker (`worker.on_event`): a listener
that raises is logged. Synchronous ones run at once, on the event loop. What an asynchronous one returns is awaited: by
the producer before `enqueue()` returns, in a worker behind its back (`delivery.py`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headgate.errors import ConfigError
from headgate.hooks.events import JOB_EVENTS, WORKER_EVENTS

log = logging.getLogger("headgate.hooks")

Listener = Callable[[Any], Any]
HARMLESS = (Exception, SystemExit, asyncio.CancelledError)
"""What a listener may raise without any effect but a log line."""


class Listeners:
    """The listeners of an app, by the name of what they listen to."""

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[Listener, ...]] = {}
        """Empty as long as nothing listens: workers look at this for every job."""

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def add(self, names: Iterable[str], listener: Listener) -> None:
        """Let a function listen to events of these names."""
        if not callable(listener):
            raise ConfigError(f"app.on(): {listener!r} is not a function that could listen")
        for name in names:
            self.by_name[name] = (*self.of(name), listener)

    def copy(self) -> Listeners:
        """The same listeners; what is added to the copy is not added here."""
        other = Listeners()
        other.by_name = dict(self.by_name)
        return other

    def of(self, name: str) -> tuple[Listener, ...]:
        """Those that listen to a name, in the order in which they were added."""
        return self.by_name.get(name, ())

    async def tell_and_wait(self, event: Any) -> None:
        """Tell the listeners, one after the other."""
        for listener in self.of(event.name):
            if (answer := call(listener, event)) is not None:
                await finish(listener, event, answer)


def call(listener: Listener, event: Any) -> Awaitable[Any] | None:
    """Call a listener; returns what is to be awaited if it is asynchronous."""
    try:
        answer = listener(event)
    except HARMLESS as error:
        report(listener, event, error)
        return None
    return answer if answer is not None and inspect.isawaitable(answer) else None


async def finish(listener: Listener, event: Any, answer: Awaitable[Any]) -> None:
    """Await what an asynchronous listener returned. Only the cancelling of the caller itself gets through."""
    try:
        await answer
    except HARMLESS as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        report(listener, event, error)


def report(listener: Listener, event: Any, error: BaseException) -> None:
    """A listener raised."""
    text = "listener %s of %r raised; nothing else is changed by it"
    log.error(text, shown(listener), getattr(event, "name", None) or event, exc_info=error)


def shown(function: Any) -> str:
    """A function as a log line names it."""
    return getattr(function, "__qualname__", None) or repr(function)


def check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a name that nothing is ever told under."""
    known = JOB_EVENTS | WORKER_EVENTS
    for name in names:
        if name not in known:
            raise ConfigError(
                f"app.on({name!r}): there is no such event; there are {', '.join(sorted(known))}"
            )
    if not names:
        raise ConfigError("app.on() needs the name of an event, as in @app.on('failed')")
    return names
