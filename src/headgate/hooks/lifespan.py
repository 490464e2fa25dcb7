"""The lifespan: what an app opens before a worker process begins to work, and closes after the last attempt.

`App(lifespan=…)` takes what Starlette takes: an async context manager function with the app as its argument; or a
synchronous one, which then runs on the event loop. What it yields is `current_job().state`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from headgate.errors import ConfigError, LifespanError
from headgate.hooks.listeners import shown

LifespanFunction = Callable[[Any], Any]


def check_lifespan(function: Any) -> LifespanFunction | None:
    """Refuse what cannot be called with the app."""
    if function is None:
        return None
    if not callable(function):
        raise ConfigError(
            f"lifespan={function!r}: a function of the app is needed, made by @asynccontextmanager"
        )
    if inspect.isasyncgenfunction(function):
        return contextlib.asynccontextmanager(function)
    if inspect.isgeneratorfunction(function):
        return contextlib.contextmanager(function)
    return function


@asynccontextmanager
async def entered(function: LifespanFunction | None, app: Any) -> AsyncGenerator[Any]:
    """Inside the lifespan; gives what it yields. Its errors come as LifespanError, those of the body as they are."""
    if function is None:
        yield None
        return
    manager, state = await _enter(function, app)
    try:
        yield state
    except BaseException as error:
        await _leave(function, manager, error)
        raise
    await _leave(function, manager, None)


async def _enter(function: LifespanFunction, app: Any) -> tuple[Any, Any]:
    try:
        manager = function(app)
        if hasattr(manager, "__aenter__"):
            return manager, await manager.__aenter__()
        if hasattr(manager, "__enter__"):
            return manager, manager.__enter__()
    except Exception as error:
        raise LifespanError(
            f"the lifespan {shown(function)} failed, so no job is run: {_said(error)}"
        ) from error
    if inspect.iscoroutine(manager):
        manager.close()
    raise LifespanError(
        f"the lifespan {shown(function)} is no context manager function, so no job is run; put @asynccontextmanager "
        "above it, and a yield inside"
    )


async def _leave(function: LifespanFunction, manager: Any, error: BaseException | None) -> None:
    kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
    try:
        if hasattr(manager, "__aexit__"):
            await manager.__aexit__(kind, error, trace)
        else:
            manager.__exit__(kind, error, trace)
    except Exception as own:
        if own is not error:
            raise LifespanError(
                f"the lifespan {shown(function)} failed when it was left: {_said(own)}"
            ) from own


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
