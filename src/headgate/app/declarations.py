"""Declaring: tasks, caps of queues, floating limits. Nothing here touches a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from headgate.app.client import Client
from headgate.app.options import JobOptions, check_priority, check_queue, check_timeout
from headgate.app.task import AnyTask, Task
from headgate.clock import duration_us
from headgate.engine.contract import Limit
from headgate.errors import ConfigError
from headgate.job import DEFAULT_PRIORITY
from headgate.keys import check_name
from headgate.limits import DeclaredLimit, FloatingRule, check_max
from headgate.periodic import Schedule, schedule
from headgate.retry import LOST_ONLY, Retry

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

Duration = float | timedelta


class TaskDecorator(Protocol):
    """What `@app.task(...)` gives."""

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...


class Declarations:
    """The part of an app that says what there is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: dict[str, AnyTask] = {}
        self._floating: dict[str, FloatingRule] = {}

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks by name."""
        return self._tasks

    @overload
    def task(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        max_concurrent: int | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        retention: Duration | None = None,
        limits: Sequence[DeclaredLimit] = (),
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | tzinfo | None = None,
        catch_up: Literal["one", "none", "all"] = "one",
    ) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a task: `@app.task`, or `@app.task(queue="email", max_concurrent=20, …)`.

        Its name is the function's unless `name=` says otherwise. Without `retry=` an exception fails the job; attempts
        that are lost with their worker are run again. `cron=` or `every=` make it periodic.
        """

        def declare(fn: Callable[..., Any]) -> AnyTask:
            return self._add(fn, **options)

        return declare if fn is None else declare(fn)

    def _add(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        queue: str = "default",
        max_concurrent: int | None = None,
        priority: int = DEFAULT_PRIORITY,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        retention: Duration | None = None,
        limits: Sequence[DeclaredLimit] = (),
        **periodic: Any,
    ) -> AnyTask:
        task = AnyTask(
            self._client,
            fn,
            name=name,
            options=JobOptions(
                check_queue(queue),
                check_priority(priority),
                None if timeout is None else check_timeout(timeout),
                None if retention is None else duration_us(retention, "retention="),
            ),
            retry=_check_retry(retry),
            max_concurrent=max_concurrent,
            limits=limits,
            schedule=_schedule(periodic),
        )
        if task.name in self._tasks:
            raise ConfigError(f"this app has a task {task.name!r} already; give one of them another name=")
        self._client.limits.declare_bound(task.limits.bound)
        if task.limits.cap is not None:
            self._client.limits.declare([task.limits.cap])
        self._tasks[task.name] = task
        self._client.decoders[task.name] = task.decode_result
        return task

    def queue(self, name: str, *, max_concurrent: int) -> None:
        """Cap how many jobs of a queue run at once, over all workers."""
        most = check_max(max_concurrent, f"max_concurrent of queue {name!r}")
        cap = check_name(f"queue:{check_queue(name)}", "queue with a cap")
        self._client.limits.declare([Limit(cap, "concurrency", most)])

    def floating_limit(
        self, name: str, *, default: int, every: Duration = 30, metadata: Mapping[str, Any] | None = None
    ) -> Callable[[F], F]:
        """Register the function that computes a floating limit's number, every so many seconds while it is in use."""

        def register(function: F) -> F:
            if name in self._floating:
                raise ConfigError(f"this app has a floating limit {name!r} already")
            rule = FloatingRule(name, function, default, duration_us(every, "every="), metadata)
            self._client.limits.declare([rule.record])
            self._floating[name] = rule
            return function

        return register


def _check_retry(retry: Any) -> Retry:
    if retry is None:
        return LOST_ONLY
    if not isinstance(retry, Retry):
        raise ConfigError(f"retry={retry!r}: a Retry is needed, as in Retry(attempts=5)")
    return retry


def _schedule(given: dict[str, Any]) -> Schedule | None:
    if given.get("cron") is None and given.get("every") is None:
        if given.get("timezone") is not None:
            raise ConfigError("timezone= belongs to cron=, which is missing")
        return None
    return schedule(**given)
