"""What the worker needs of a task: `headgate.app.task.Task` has this shape, and so have the worker's own tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headgate.hooks.dependencies import Dependency
from headgate.job import NewJob
from headgate.limits.adapt import Adaptive
from headgate.periodic import Schedule
from headgate.retry import Retry


class Runnable(Protocol):
    """A task that a worker can run."""

    @property
    def name(self) -> str: ...

    @property
    def fn(self) -> Callable[..., Any]: ...

    @property
    def is_async(self) -> bool: ...

    @property
    def in_process(self) -> bool:
        """Whether it is to run in a process of its worker's pool."""
        ...

    @property
    def retry(self) -> Retry: ...

    @property
    def schedule(self) -> Schedule | None: ...

    @property
    def dependencies(self) -> Mapping[str, Dependency]:
        """The parameters of `fn` that the worker fills."""
        ...

    @property
    def learning(self) -> Callable[[str, str], Mapping[str, Adaptive]] | None:
        """From the arguments' JSON and the tenant to the keys whose number is learnt; None for tasks without any."""
        ...

    def decode(self, args: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to call `fn` with; raises PayloadError."""
        ...

    def encode_result(self, value: Any) -> str:
        """The result as JSON; raises PayloadError."""
        ...

    def job(self, *args: Any, **kwargs: Any) -> NewJob:
        """A job of this task."""
        ...
