"""What can be a task: a function, and not what only looks like one."""

from __future__ import annotations

import inspect
from typing import Any

from headgate.errors import ConfigError
from headgate.signatures import parameters


def plain_function(fn: Any) -> Any:
    """What is to be called: a static method is the function that it was made of."""
    return fn.__func__ if isinstance(fn, staticmethod) else fn


def check_function(fn: Any) -> None:
    """Refuse what a worker could not call with a job's arguments, and say what to write instead."""
    if isinstance(fn, classmethod):
        raise ConfigError(
            f"{fn.__qualname__} is a method: a worker calls a task with the job's arguments only; make it a function "
            "outside of the class, or a @staticmethod below @app.task"
        )
    if isinstance(fn, str):
        raise ConfigError(f"task({fn!r}): a name goes into name=; write @app.task(name={fn!r})")
    if isinstance(fn, type):
        raise ConfigError(f"{fn.__qualname__} is a class, and a task is a function; write one that makes it")
    if not callable(fn):
        raise ConfigError(
            f"task({fn!r}): a function is needed; options have names, as in task(queue='email')"
        )
    if _is_method(fn):
        raise ConfigError(
            f"{fn.__qualname__} is a method: a worker has no object to call it on; make it a function outside of the "
            "class, or a @staticmethod below @app.task"
        )


def _is_method(fn: Any) -> bool:
    """Whether a function stands in the body of a class and wants the object first."""
    if not inspect.isfunction(fn):
        return False
    outside, _, _ = fn.__qualname__.rpartition(".")
    first = next(iter(parameters(fn)), None)
    return (
        bool(outside)
        and not outside.endswith("<locals>")
        and first is not None
        and first.name in ("self", "cls")
    )
