"""The exceptions of attempts as they were raised: for tests that want to see them, not their text in a store."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from headgate.app.task import AnyTask
from headgate.errors import JobControl


class ErrorsSeen:
    """What the tasks of one run raised. What task code raises to say how its attempt ends is no error."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def watching(self, tasks: Mapping[str, AnyTask]) -> Mapping[str, Any]:
        """The same tasks, whose errors are noted here."""
        return {name: _Watched(task, self) for name, task in tasks.items()}

    def note(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose errors are noted."""

        @functools.wraps(call)
        def noted(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except JobControl:
                raise
            except Exception as error:
                self._errors.append(error)
                raise

        return noted

    def note_async(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function whose errors are noted."""

        @functools.wraps(call)
        async def noted(*args: Any, **kwargs: Any) -> Any:
            try:
                return await call(*args, **kwargs)
            except JobControl:
                raise
            except Exception as error:
                self._errors.append(error)
                raise

        return noted

    def raise_them(self) -> None:
        """Raise the only error as it is, several as a group."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} attempts failed", self._errors)


class _Watched:
    """A task for the worker. Everything but the calls is the task's own."""

    def __init__(self, task: AnyTask, seen: ErrorsSeen) -> None:
        self._task = task
        self.fn = seen.note_async(task.fn) if task.is_async else seen.note(task.fn)
        self.decode = seen.note(task.decode)
        self.encode_result = seen.note(task.encode_result)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)
