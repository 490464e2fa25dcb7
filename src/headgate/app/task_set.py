"""Task sets: tasks that are declared before there is an app, so that modules need not import each other in a circle.

    # myproject/mail.py
    tasks = TaskSet()

    @tasks.task(queue="email")
    async def send(to: str) -> str: ...

    # myproject/app.py
    app = App()
    app.include(mail.tasks)

`send.enqueue(…)` goes to the app that includes the set. Where several do, `app.tasks["send"]` says which is meant.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload
from weakref import WeakSet

from headgate.app.defaults import TaskDefaults, resolved
from headgate.app.included import SetClient, SetTask
from headgate.app.sharing import ShareBy
from headgate.app.task import AnyTask, AsyncTask, SyncTask
from headgate.app.task_function import check_function
from headgate.app.task_options import TaskOptions, check_known
from headgate.engine.contract import Overflow
from headgate.errors import ConfigError
from headgate.job import Charge

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from headgate.app.declarations import Declarations, FloatingFunction, TaskDecorator

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound="FloatingFunction")


class TaskSet:
    """Tasks, caps of queues and floating limits that wait for an app to include them."""

    def __init__(self) -> None:
        self.declared: dict[str, tuple[Callable[..., Any], TaskOptions]] = {}
        self._steps: list[Callable[[Declarations], Any]] = []
        self._apps: WeakSet[Declarations] = WeakSet()
        self._client = SetClient(self._only)

    @overload
    def task(  # pyright: ignore[reportOverlappingOverload] - the first one that fits counts
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a task, with the options of `App.task`."""
        check_known(options)

        def declare(fn: Callable[..., Any]) -> AnyTask:
            return self._declare(fn, TaskOptions(**options))

        if fn is not None:
            check_function(fn)
        return declare if fn is None else declare(fn)

    def _declare(self, fn: Callable[..., Any], options: TaskOptions) -> AnyTask:
        from headgate.app.declarations import make_task

        task = make_task(self._client, fn, options, lambda own: resolved(own, {}, TaskDefaults()), SetTask)
        if task.name in self.declared:
            raise ConfigError(f"this set has a task {task.name!r} already; give one of them another name=")
        for app in list(self._apps):
            app.declare_all([(fn, options)])
        self.declared[task.name] = (fn, options)
        return task

    def queue(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
        share_by: ShareBy | None = None,
        weights: Mapping[str, float] | None = None,
        charge: Charge | None = None,
        defaults: TaskDefaults | None = None,
    ) -> None:
        """Say something about a queue, as `App.queue` does."""
        self._do(
            lambda app: app.queue(
                name,
                max_concurrent=max_concurrent,
                max_waiting=max_waiting,
                on_overflow=on_overflow,
                share_by=share_by,
                weights=weights,
                charge=charge,
                defaults=defaults,
            )
        )

    def floating_limit(
        self,
        name: str,
        *,
        default: int,
        every: float | timedelta = 30,
        metadata: Mapping[str, Any] | None = None,
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
    ) -> Callable[[F], F]:
        """Register the function that computes a floating limit's number, as `App.floating_limit` does."""

        def register(function: F) -> F:
            self._do(
                lambda app: app.floating_limit(
                    name,
                    default=default,
                    every=every,
                    metadata=metadata,
                    max_waiting=max_waiting,
                    on_overflow=on_overflow,
                )(function)
            )
            return function

        return register

    def _do(self, step: Callable[[Declarations], Any]) -> None:
        for app in list(self._apps):
            step(app)
        self._steps.append(step)

    def join(self, app: Declarations) -> None:
        """Declare everything on an app: what `App.include` does. A second time it changes nothing."""
        if app in self._apps:
            return
        # Tasks first: they are all or none, and what is wrong with a set is nearly always one of their names.
        app.declare_all(list(self.declared.values()))
        for step in self._steps:
            step(app)
        self._apps.add(app)

    def _only(self) -> Declarations:
        """The one app that includes this set."""
        apps = list(self._apps)
        if len(apps) > 1:  # apps that nothing uses any more do not count, collected or not
            del apps
            gc.collect()
            apps = list(self._apps)
        if not apps:
            raise ConfigError(f"{self._names()} in a TaskSet that no app includes; write app.include(tasks)")
        if len(apps) > 1:
            raise ConfigError(
                f"{self._names()} in a TaskSet that {len(apps)} apps include; say which one: "
                "app.tasks['NAME'].enqueue(…)"
            )
        return apps[0]

    def _names(self) -> str:
        shown: Sequence[str] = [repr(name) for name in self.declared]
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        return f"{'task' if len(shown) == 1 else 'tasks'} {', '.join(shown[:3])}{more}: declared"

    def __repr__(self) -> str:
        return f"<TaskSet with {len(self.declared)} tasks>"
