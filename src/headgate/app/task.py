"""Tasks: a declared function, and the jobs made from it.

Everything that can be decided at declaration is: the signature, the payload's types, where keys come from. Making one
job is then a binding of names, one JSON encoding, one decoding (the check that the worker makes, too) and a record.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from headgate.app.blocks import enqueue
from headgate.app.client import Client
from headgate.app.handle import JobHandle
from headgate.app.options import JobOptions, OnConflict
from headgate.app.sharing import NOBODYS, ReadShare
from headgate.app.signature import TaskSignature, hints_of
from headgate.app.sync import SyncLoop, twin
from headgate.app.task_function import check_function
from headgate.app.task_options import RunIn, check_limits, check_run_in
from headgate.codec import Payload, ResultForm
from headgate.engine.contract import NewArguments
from headgate.errors import ConfigError, PayloadError
from headgate.hooks.hooks import Hooks
from headgate.ids import new_id
from headgate.job import Charge, Job, NewJob
from headgate.keys import Key, canonical, check_length, check_name
from headgate.limits import DeclaredLimit
from headgate.limits.adapt import Adaptive
from headgate.limits.bound import BoundLimit
from headgate.limits.of_task import TaskLimits
from headgate.periodic import Schedule
from headgate.retry import Retry

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function that can be enqueued. It can still be called like the function it is."""

    def __init__(
        self,
        client: Client,
        fn: Callable[P, Any],
        *,
        name: str | None,
        options: JobOptions,
        retry: Retry,
        max_concurrent: int | None = None,
        limits: Sequence[DeclaredLimit] | None = (),
        schedule: Schedule | None = None,
        run_in: RunIn | None = None,
    ) -> None:
        check_function(fn)
        functools.update_wrapper(self, fn)
        self._client = client
        self.fn = fn
        self.name = _check_task_name(name or getattr(fn, "__name__", ""))
        self.is_async = is_async(fn, self.name)
        self.in_process = check_run_in(run_in, self.name, is_async=self.is_async) == "process"
        self.schedule = schedule
        self.set_defaults(options, retry)
        self._readers: dict[str, ReadShare | None] = {}
        self._signature = TaskSignature(fn, self.name, client.types)
        self.dependencies = self._signature.dependencies
        client.hooks.check(self.dependencies, lambda function: hints_of(function, self.name))
        self._payload = self._compile_payload()
        given = check_limits(limits, f"task {self.name!r}")
        self.limits = TaskLimits(self._signature.parameters, self._signature.limits, given, max_concurrent)
        self._result = ResultForm(
            self.name, _result_type(self._signature.returns), client.json_limit, client.types
        )
        if schedule is not None and (
            missing := self._signature.types.keys() - self._signature.defaults.keys()
        ):
            raise ConfigError(f"periodic task {self.name!r} needs defaults for {', '.join(sorted(missing))}")

    def set_defaults(self, options: JobOptions, retry: Retry) -> None:
        """What its next jobs get unless they say something else."""
        self._options = options
        self.retry = retry

    def _compile_payload(self) -> Payload:
        signature, client = self._signature, self._client
        optional = frozenset(signature.defaults)
        return Payload(self.name, signature.types, optional, client.json_limit, client.types)

    # ── what the worker needs ────────────────────────────────────────────────────────────────────────────────────

    @property
    def queue(self) -> str:
        """The queue its jobs go to."""
        return self._options.queue

    @property
    def timeout(self) -> int | None:
        """Microseconds that an attempt may take."""
        return self._options.timeout

    @property
    def retention(self) -> int | None:
        """Microseconds that its ended jobs are kept; None for what the app says."""
        return self._options.retention

    @property
    def hooks(self) -> Hooks:
        """What its app hangs around it."""
        return self._client.hooks

    def decode(self, args: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """JSON text as call arguments, converted as annotated; raises PayloadError."""
        return self._signature.call(self._payload.decode(args))

    @property
    def learning(self) -> Callable[[str, str], Mapping[str, Adaptive]] | None:
        """How to find the keys of a job whose number is learnt; None for a task without adaptive limits."""
        return self._learning if self.limits.adaptive else None

    def _learning(self, args: str, tenant: str) -> Mapping[str, Adaptive]:
        return self.limits.learning(self._payload.decode(args), tenant)

    def encode_result(self, value: Any) -> str:
        """A result as JSON text; raises PayloadError."""
        return "null" if value is None else self._result.encode(value)

    def decode_result(self, text: str) -> R:
        """JSON text as a result, converted as annotated; raises PayloadError."""
        return self._result.decode(text)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sync_loop(self) -> SyncLoop:
        """Where the sync twins run."""
        return self._client.sync_loop

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function, without a job."""
        return self.fn(*args, **kwargs)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R]:
        """A job of this task, not enqueued yet: for `app.enqueue()` and `app.enqueue_many()`."""
        return self.build(args, kwargs, self._options, ())

    def build(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: JobOptions,
        extra: tuple[BoundLimit, ...],
    ) -> NewJob[R]:
        """One job from a call's arguments and its options."""
        text, arguments = self._payload.encode(self._signature.bind(args, kwargs))
        uses = self.limits.uses(arguments, options.tenant, extra)
        if extra:
            self._client.limits.mention_bound(extra)
        start_within, start_by = options.latest_start
        share, charge = self._share_of(options, arguments)
        return NewJob(
            options.id or new_id(),
            self.name,
            options.queue,
            text,
            options.tenant,
            options.priority,
            options.delay,
            options.at,
            uses,
            self.retry.policy,
            options.timeout,
            options.unique,
            options.on_conflict,
            options.metadata,
            options.retention,
            options.headers,
            start_within,
            start_by,
            options.at_most,
            options.unique_for,
            share,
            charge,
        )

    def _share_of(self, options: JobOptions, arguments: Any) -> tuple[str | None, Charge]:
        """Whose part of the queue's starts a job belongs to, and what that is charged for."""
        shares = self._client.shares
        said = shares.queues.get(options.queue)
        if said is None:
            if options.share is not None:
                raise ConfigError(
                    f"share={options.share!r}: queue {options.queue!r} is not shared; declare "
                    f"app.queue({options.queue!r}, share_by=…)"
                )
            return None, "starts"
        if options.share is not None:
            return options.share, said.charge
        read = self._reader(options.queue)
        return NOBODYS if read is None else read(arguments, options.tenant), said.charge

    def _reader(self, queue: str) -> ReadShare | None:
        """How the share of a job in a queue is read off its arguments; None where it is not."""
        if queue not in self._client.shares.queues:
            return None
        if queue not in self._readers:
            self._readers[queue] = self._client.shares.reader(queue, self.limits.parameters)
        return self._readers[queue]

    def changed(self, job: Job, args: str, given: Mapping[str, Any]) -> NewArguments:
        """The arguments of a stored job of this task, changed by those that are given, and the keys that it needs then.

        Limits that the job was given when it was enqueued keep the keys that they had."""
        call = self._signature.call(self._payload.changed(args, self._signature.named(given)))
        options = self._options.but({"tenant": job.tenant or None}, self._client.payload_limit)
        made = self.build(*call, options, ())
        own = {bound.name for bound in self.limits.bound}
        rest = [use for use in job.uses if Key.of(use.key).name not in own]
        uses = canonical((Key.of(use.key), use.units, use.number) for use in (*made.uses, *rest))
        return NewArguments(made.args, uses, self._changed_share(job, args, made.args))

    def _changed_share(self, job: Job, before: str, after: str) -> str | None:
        """The share of a job whose arguments change, where the arguments decide on it; None where it keeps its own: it
        was given by name, or its queue is shared by something else."""
        if job.share is None or (read := self._reader(job.queue)) is None:
            return None
        try:
            of_old = read(self._payload.decode(before), job.tenant)
        except PayloadError:  # it is restarted with others since these do not fit
            of_old = job.share
        return read(self._payload.decode(after), job.tenant) if of_old == job.share else None

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue one job. Returns once it is stored."""
        return await self.send(self.build(args, kwargs, self._options, ()))

    enqueue_sync = twin(enqueue)

    async def send(self, job: NewJob[R]) -> JobHandle[R]:
        """Enqueue a job that was built here."""
        return (await enqueue(self._client, (job,)))[0]

    def options(
        self,
        *,
        priority: int | None = None,
        delay: float | timedelta | None = None,
        at: datetime | None = None,
        tenant: str | None = None,
        id: str | None = None,
        unique: str | None = None,
        on_conflict: OnConflict | None = None,
        metadata: Mapping[str, Any] | None = None,
        limits: Sequence[DeclaredLimit] | None = (),
        queue: str | None = None,
        timeout: float | timedelta | None = None,
        retention: float | timedelta | None = None,
        headers: Mapping[str, str] | None = None,
        expires: float | timedelta | datetime | None = None,
        at_most: float | timedelta | None = None,
        unique_for: float | timedelta | None = None,
        share: str | None = None,
    ) -> TaskWithOptions[P, R]:
        """The task with what is to be different for some of its jobs; `limits` come on top of its own.

        `expires` is until when a job must have started, a point in time or a duration after its due time. `at_most`
        bounds how long `on_conflict="update"` puts a job off; `unique_for` keeps the unique key taken for so long after
        the start. `share` is whose part of a shared queue the job takes."""
        given = {
            "priority": priority, "delay": delay, "at": at, "tenant": tenant, "id": id, "unique": unique,
            "on_conflict": on_conflict, "metadata": metadata, "queue": queue, "timeout": timeout,
            "retention": retention, "headers": headers, "expires": expires, "at_most": at_most,
            "unique_for": unique_for, "share": share,
        }  # fmt: skip
        bound = self.limits.bind(check_limits(limits, f"task {self.name!r}"), by_job=True)
        self._client.limits.check_bound(bound)
        return TaskWithOptions(self, self._options.but(given, self._client.payload_limit), bound)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class AsyncTask(Task[P, R]):
    """A task whose function is `async def`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function, without a job."""
        return self.fn(*args, **kwargs)


class SyncTask(Task[P, R]):
    """A task whose function is not async: a worker runs it in a thread, or in a process of its pool."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, without a job."""
        return self.fn(*args, **kwargs)


class TaskWithOptions(Generic[P, R]):
    """A task and options for its next jobs."""

    __slots__ = ("_limits", "_options", "_task")

    def __init__(self, task: Task[P, R], options: JobOptions, limits: tuple[BoundLimit, ...]) -> None:
        self._task = task
        self._options = options
        self._limits = limits

    @property
    def sync_loop(self) -> SyncLoop:
        """Where the sync twins run."""
        return self._task.sync_loop

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R]:
        """A job with these options, not enqueued yet."""
        return self._task.build(args, kwargs, self._options, self._limits)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue one job with these options."""
        return await self._task.send(self._task.build(args, kwargs, self._options, self._limits))

    enqueue_sync = twin(enqueue)


def _check_task_name(name: str) -> str:
    if name in ("<lambda>", ""):
        what = "a lambda" if name else "what is to be the task"
        raise ConfigError(f"{what} has no name of its own; give the task one with name=")
    if name.startswith("floating:"):
        raise ConfigError(f"task name {name!r}: names that begin with 'floating:' are reserved")
    check_name(name, "task name")
    check_length(f"task:{name}", "limit name")
    return name


def is_async(fn: Any, name: str) -> bool:
    """Whether a task's function is to be awaited."""
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        raise ConfigError(f"task {name!r} is a generator; a task returns one result")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _result_type(returns: Any) -> Any:
    """What a result is converted to; a task declared to return nothing says nothing about it."""
    return Any if returns in (None, type(None), inspect.Signature.empty) else returns


AnyTask = Task[..., Any]
