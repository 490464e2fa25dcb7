"""Declaring: tasks, caps of queues, floating limits. Nothing here touches a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from headgate.app.client import Client
from headgate.app.defaults import NOTHING, TaskDefaults, check_defaults, resolved
from headgate.app.options import JobOptions, check_queue
from headgate.app.sharing import QueueShares, ShareBy, queue_shares
from headgate.app.task import AnyTask, AsyncTask, SyncTask, is_async
from headgate.app.task_function import check_function, plain_function
from headgate.app.task_options import TaskOptions, check_known, schedule_of
from headgate.clock import duration_us
from headgate.engine.contract import Limit, Overflow
from headgate.errors import ConfigError
from headgate.job import Charge
from headgate.keys import check_name
from headgate.limits import FloatingLimitView, FloatingRule, check_backlog, check_max
from headgate.retry import Retry
from headgate.signatures import signature

if TYPE_CHECKING:
    from headgate.app.task_set import TaskSet

P = ParamSpec("P")
R = TypeVar("R")

Duration = float | timedelta
FloatingFunction = Callable[[FloatingLimitView], int | Awaitable[int]]
F = TypeVar("F", bound=FloatingFunction)
Resolve = Callable[[TaskDefaults], tuple[JobOptions, Retry]]


class TaskDecorator(Protocol):
    """What `@app.task(...)` gives."""

    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload] - the first one that fits counts
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...


def _check_floating(name: str, function: Any) -> None:
    """Refuse what could not be called with a key's view: otherwise only a worker would find out, again and again."""
    try:
        signature(function).bind(None)
    except TypeError:
        raise ConfigError(
            f"floating limit {name!r}: {function!r:.80} must be a function of one argument, `def compute(limit): …`"
        ) from None
    except ValueError:  # a built-in whose parameters cannot be seen
        pass


def _check_set(given: Any) -> None:
    """Refuse what is no set of tasks: an app, say, whose tasks are its own."""
    if not hasattr(given, "declared"):
        raise ConfigError(
            f"include({given!r:.80}): a TaskSet is needed; declare the tasks of a module on `tasks = TaskSet()`, and "
            "include that"
        )


def make_task(
    client: Client,
    fn: Callable[..., Any],
    options: TaskOptions,
    resolve: Resolve,
    kind: type[AnyTask] | None = None,
) -> AnyTask:
    """A task, not yet one of any app; `resolve` says what counts where the task says nothing."""
    check_function(fn)
    fn = plain_function(fn)
    name = options.get("name")
    chosen = kind or cast("type[AnyTask]", AsyncTask if is_async(fn, name or _name_of(fn)) else SyncTask)
    job_options, retry = resolve(own_words(options))
    return chosen(
        client,
        fn,
        name=name,
        options=job_options,
        retry=retry,
        max_concurrent=options.get("max_concurrent"),
        limits=options.get("limits"),
        schedule=schedule_of(options),
        run_in=options.get("run_in"),
    )


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", "")


def own_words(options: TaskOptions) -> TaskDefaults:
    """What a task itself says about its jobs."""
    return TaskDefaults(
        queue=options.get("queue"),
        priority=options.get("priority"),
        retry=options.get("retry"),
        timeout=options.get("timeout"),
        retention=options.get("retention"),
        expires=options.get("expires"),
    )


def _queue_limit(
    queue: str, max_concurrent: int | None, max_waiting: int | None, on_overflow: Overflow | None
) -> Limit | None:
    most = None if max_concurrent is None else check_max(max_concurrent, f"max_concurrent of queue {queue!r}")
    backlog, overflow = check_backlog(max_waiting, on_overflow, f"queue {queue!r}")
    if most is None and backlog is None:
        return None
    name = check_name(f"queue:{queue}", "queue with a cap" if backlog is None else "queue with a bound")
    return Limit(name, "concurrency", most, max_waiting=backlog, on_overflow=overflow)


class Declarations:
    """The part of an app that says what there is."""

    def __init__(self, client: Client, defaults: TaskDefaults = NOTHING) -> None:
        self._client = client
        self._tasks: dict[str, AnyTask] = {}
        self._own: dict[str, TaskDefaults] = {}
        self._floating: dict[str, FloatingRule] = {}
        self._defaults = defaults
        self._queues: dict[str, TaskDefaults] = {}

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks by name."""
        return self._tasks

    @overload
    def task(  # pyright: ignore[reportOverlappingOverload] - the first one that fits counts
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a task: `@app.task`, or `@app.task(queue="email", max_concurrent=20, …)`.

        Its name is the function's unless `name=` says otherwise. Without `retry=` an exception fails the job; attempts
        that are lost with their worker are run again. `cron=` or `every=` make it periodic.
        """
        check_known(options)
        given = TaskOptions(**options)

        def declare(fn: Callable[..., Any]) -> AnyTask:
            (task,) = self.declare_all([(fn, given)])
            return task

        if fn is not None:
            check_function(fn)
        return declare if fn is None else declare(fn)

    def include(self, *sets: TaskSet) -> None:
        """Take up everything that is declared on task sets, now and later."""
        for each in sets:
            _check_set(each)
        for each in sets:
            each.join(self)

    def declare_all(self, declarations: Sequence[tuple[Callable[..., Any], TaskOptions]]) -> list[AnyTask]:
        """Declare tasks, all or none."""
        made = [
            (make_task(self._client, fn, options, self._resolve), options) for fn, options in declarations
        ]
        for task, _ in made:
            if task.name in self._tasks:
                raise ConfigError(
                    f"this app has a task {task.name!r} already; give one of them another name="
                )
            self._client.limits.check_bound(task.limits.bound)
            if task.limits.cap is not None:
                self._client.limits.check(task.limits.cap)
            if task.queue in self._client.shares.queues:
                self._client.shares.reader(task.queue, task.limits.parameters)
        for task, options in made:
            self._add(task, own_words(options))
        return [task for task, _ in made]

    def _resolve(self, own: TaskDefaults) -> tuple[JobOptions, Retry]:
        return resolved(own, self._queues, self._defaults)

    def _add(self, task: AnyTask, own: TaskDefaults) -> None:
        self._client.limits.declare_bound(task.limits.bound)
        if task.limits.cap is not None:
            self._client.limits.declare([task.limits.cap])
        self._tasks[task.name] = task
        self._own[task.name] = own
        self._client.tasks[task.name] = task

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
        """Cap how many jobs of a queue run at once, over all workers, share it, and say what holds for its tasks.

        `max_waiting` bounds its ready and waiting jobs; `on_overflow` is what happens beyond: "refuse", "drop_oldest"
        or "drop_newest". `share_by` makes it a shared queue, whose starts are divided fairly: "tenant", an argument's
        name, a template over the arguments or a function of them; `weights` are those of shares that have another one
        than 1, and `charge` says what counts, "starts" or the "time" that attempts take.
        """
        check_queue(name)
        shared = queue_shares(name, share_by, weights, charge)
        cap = _queue_limit(name, max_concurrent, max_waiting, on_overflow)
        if shared is not None:
            self._share(name, *shared)
        if defaults is not None:
            self._default(name, check_defaults(defaults, f"queue({name!r}, defaults=)"))
        if cap is not None:
            self._client.limits.declare([cap])
        self._queues.setdefault(name, NOTHING)

    def _share(self, queue: str, said: QueueShares, weights: dict[str, float]) -> None:
        """Its tasks must have what it is shared by, whether they are declared before or after."""
        shares = self._client.shares
        shares.declare(queue, said, weights)
        for task in self._tasks.values():
            if task.queue == queue:
                shares.reader(queue, task.limits.parameters)

    def _default(self, queue: str, defaults: TaskDefaults) -> None:
        """Defaults count for all tasks of a queue, whether they are declared before or after."""
        if defaults.queue is not None:
            raise ConfigError(f"queue({queue!r}, defaults={defaults!r}): a queue's defaults name no queue")
        if self._queues.get(queue, NOTHING) not in (NOTHING, defaults):
            raise ConfigError(f"queue {queue!r} has other defaults already: {self._queues[queue]!r}")
        self._queues[queue] = defaults
        for name, task in self._tasks.items():
            task.set_defaults(*self._resolve(self._own[name]))

    def floating_limit(
        self,
        name: str,
        *,
        default: int,
        every: Duration = 30,
        metadata: Mapping[str, Any] | None = None,
        max_waiting: int | None = None,
        on_overflow: Overflow | None = None,
    ) -> Callable[[F], F]:
        """Register the function that computes a floating limit's number, every so many seconds while it is in use.

        `max_waiting` and `on_overflow` are those of ConcurrencyLimit."""

        def register(function: F) -> F:
            if name in self._floating:
                raise ConfigError(f"this app has a floating limit {name!r} already")
            _check_floating(name, function)
            rule = FloatingRule(
                name, function, default, duration_us(every, "every="), metadata, max_waiting, on_overflow
            )
            self._client.limits.declare([rule.record])
            self._floating[name] = rule
            return function

        return register
