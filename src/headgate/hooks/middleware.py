"""Middleware: async functions around each attempt, `async def around(job, call_next)`.

`await call_next()` runs the rest: the next middleware, at last the task. It returns the task's result or raises what
the task raised; the middleware may return another result, raise something else, or not call it at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from headgate.errors import ConfigError
from headgate.hooks.context import JobContext
from headgate.signatures import signature

CallNext = Callable[[], Awaitable[Any]]
Middleware = Callable[[JobContext, CallNext], Coroutine[Any, Any, Any]]


def check_middleware(function: Any) -> Middleware:
    """Refuse what cannot stand around an attempt."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async is fine, too
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise ConfigError(
            f"middleware {function!r}: an async function is needed, `async def around(job, call_next): …`"
        )
    try:
        signature(function).bind(None, None)
    except TypeError:
        raise ConfigError(f"middleware {function!r} must take two arguments: job and call_next") from None
    return function


def around(middleware: Sequence[Middleware], job: JobContext, innermost: CallNext) -> Awaitable[Any]:
    """Call `innermost` with all of the middleware around it, the first one outermost."""
    call = innermost
    for each in reversed(middleware):
        call = partial(each, job, call)
    return call()
