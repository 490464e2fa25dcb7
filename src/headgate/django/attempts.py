"""Around each attempt: what Django does around a request. Queries are forgotten, old connections closed.

It has to be done in the thread that has the connections. A synchronous task has a thread of its own, and one of an
async task's own is made where it uses the ORM, so that attempts neither wait for each other's queries nor share a
connection.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from headgate.callers import CALLER
from headgate.hooks.context import CURRENT

Function = Callable[..., Any]

_INSIDE: ContextVar[bool] = ContextVar("headgate_django_inside", default=False)
"""A task that calls another one's function must not lose its connection, perhaps in the middle of a cursor."""


def as_attempts(function: Function, on_trial: Callable[[], bool], *, is_async: bool) -> Function:
    """The function, with Django in order where a worker calls it. A plain call of a task changes nothing.

    On trial, in a test, connections stay as they are, and the thread that waits in `run_until_idle_sync()` calls
    synchronous tasks itself: they see what the test's transaction has."""

    def plain() -> bool:
        return CURRENT.get(None) is None or _INSIDE.get()

    @functools.wraps(function)
    def in_thread(*args: Any, **kwargs: Any) -> Any:
        if plain():
            return function(*args, **kwargs)
        if on_trial():
            return _by_the_test(lambda: function(*args, **kwargs))
        with _inside():
            reset_queries()
            close_old_connections()
            try:
                return function(*args, **kwargs)
            finally:
                close_old_connections()

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        if plain() or on_trial():
            return await function(*args, **kwargs)
        with _inside():
            async with ThreadSensitiveContext() as thread:
                try:
                    return await function(*args, **kwargs)
                finally:
                    if thread in SyncToAsync.context_to_thread_executor:
                        await sync_to_async(connections.close_all)()

    return awaited if is_async else in_thread


@contextmanager
def _inside() -> Generator[None]:
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _by_the_test(call: Callable[[], Any]) -> Any:
    caller, job = CALLER.get(), CURRENT.get()

    def called() -> Any:
        token = CURRENT.set(job)
        try:
            return call()
        finally:
            CURRENT.reset(token)

    answer = None if caller is None else caller.take(called)
    return call() if answer is None else answer.result()
