"""What happens to a job between the program that enqueues it and the store: middleware, then sealing.

A function of `app.enqueue_middleware` sees each job that its app is about to enqueue, also the jobs of periodic tasks,
and may give it headers. All jobs of one call pass before the first of them is stored; what it raises ends the call.

One of `app.around_enqueue` stands around all of this and the store's answer, once per call; not around the jobs of
periodic tasks, which no program enqueues.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import msgspec

from headgate.clock import from_us
from headgate.codec import decode_object
from headgate.errors import ConfigError, HeadgateError
from headgate.headers import headers_text, read_headers
from headgate.hooks.context import CURRENT, JobContext
from headgate.hooks.listeners import shown
from headgate.job import NewJob
from headgate.sealing import PLAIN, Sealing
from headgate.signatures import signature

AddedHeaders = Mapping[str, str] | None
EnqueueMiddleware = Callable[["NewJobInfo"], AddedHeaders | Awaitable[AddedHeaders]]
CallStore = Callable[[], Awaitable[Sequence[Any]]]
AroundEnqueue = Callable[[Sequence["NewJobInfo"], CallStore], Coroutine[Any, Any, Sequence[Any]]]


class NewJobInfo:
    """A job that is about to be enqueued, to be read only."""

    __slots__ = ("_headers", "_job", "_parent")

    def __init__(self, job: NewJob, headers: Mapping[str, str], parent: JobContext | None) -> None:
        self._job = job
        self._headers = MappingProxyType(headers)
        self._parent = parent

    @property
    def id(self) -> str:
        """The id that it will have; where `unique` finds an unfinished job, that one has another."""
        return self._job.id

    @property
    def task(self) -> str:
        """The task's name."""
        return self._job.task

    @property
    def queue(self) -> str:
        """The queue it goes to."""
        return self._job.queue

    @property
    def tenant(self) -> str | None:
        """Its tenant, if it has one."""
        return self._job.tenant or None

    @property
    def priority(self) -> int:
        """0 (first) to 99."""
        return self._job.priority

    @property
    def at(self) -> datetime | None:
        """The point in time before which it must not start, if one was given: the tick, for a periodic task."""
        return None if self._job.at is None else from_us(self._job.at)

    @property
    def unique(self) -> str | None:
        """Its unique key, if it has one."""
        return self._job.unique

    @property
    def args(self) -> dict[str, Any]:
        """Its arguments by name, as plain JSON values."""
        return decode_object(self._job.args)

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given as `metadata=`."""
        return decode_object(self._job.metadata)

    @property
    def headers(self) -> Mapping[str, str]:
        """What it has so far: given as `headers=`, then added by middleware that came before."""
        return self._headers

    @property
    def parent(self) -> JobContext | None:
        """The job whose code enqueues this one; None outside of jobs."""
        return self._parent

    def __repr__(self) -> str:
        return f"<NewJobInfo {self.task} {self.id}>"


class Enqueueing:
    """What an app has hung before its store."""

    __slots__ = ("around", "middleware", "sealing")

    def __init__(self) -> None:
        self.around: list[AroundEnqueue] = []
        self.middleware: list[EnqueueMiddleware] = []
        self.sealing: Sealing = PLAIN

    @property
    def idle(self) -> bool:
        """Whether jobs are stored as they were made: the way of most programs."""
        return not self.middleware and not self.sealing.active

    async def surrounded(self, jobs: Sequence[NewJob], store: CallStore) -> list[Any]:
        """Call `store` with all that stands around it, the first one outermost."""
        parent = CURRENT.get(None)
        infos = tuple(NewJobInfo(job, read_headers(job.headers), parent) for job in jobs)
        call = store
        for each in reversed(self.around):
            call = partial(each, infos, call)
        handles = await call()
        if not isinstance(handles, list):
            raise HeadgateError("app.around_enqueue: a function must return what its call_next() returned")
        return handles

    async def prepare(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """The jobs as they are to be stored."""
        if self.idle:
            return jobs
        return [self.sealed(await self._with_headers(job)) for job in jobs]

    async def _with_headers(self, job: NewJob) -> NewJob:
        if not self.middleware:
            return job
        headers, parent = read_headers(job.headers), CURRENT.get(None)
        before = dict(headers)
        for function in self.middleware:
            added = function(NewJobInfo(job, headers, parent))
            _add(headers, await added if inspect.isawaitable(added) else added, function)
        if headers == before:
            return job
        return msgspec.structs.replace(
            job, headers=headers_text(headers, f"headers of a job of {job.task!r}:")
        )

    def sealed(self, job: NewJob) -> NewJob:
        """The job with its arguments as they are stored."""
        if not self.sealing.active:
            return job
        args = self.sealing.seal("args", job.args, job.task, job.id, job.tenant)
        return msgspec.structs.replace(job, args=args)


def _add(headers: dict[str, str], added: Any, function: EnqueueMiddleware) -> None:
    """What a job has already counts: what is said for one job beats what is said for all."""
    if added is None:
        return
    if not isinstance(added, Mapping):
        raise ConfigError(
            f"enqueue middleware {shown(function)} returned {added!r:.80}; it returns a mapping of headers to add, or "
            "None"
        )
    headers_text(added, f"enqueue middleware {shown(function)} returned headers:")
    for name, value in cast("Mapping[str, str]", added).items():
        headers.setdefault(name, value)


def check_enqueue_middleware(function: Any) -> EnqueueMiddleware:
    """Refuse what cannot be called with a job."""
    if not callable(function):
        raise ConfigError(
            f"enqueue middleware {function!r}: a function is needed, `def add(job): return {{'name': 'value'}}`"
        )
    try:
        signature(function).bind(None)
    except TypeError:
        raise ConfigError(f"enqueue middleware {function!r} must take one argument: job") from None
    except ValueError:  # a built-in whose parameters cannot be seen
        pass
    return cast("EnqueueMiddleware", function)


def check_around_enqueue(function: Any) -> AroundEnqueue:
    """Refuse what cannot stand around an enqueue."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async is fine, too
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise ConfigError(
            f"around_enqueue {function!r}: an async function is needed, `async def around(jobs, call_next): …`"
        )
    try:
        signature(function).bind(None, None)
    except TypeError:
        raise ConfigError(
            f"around_enqueue {function!r} must take two arguments: jobs and call_next"
        ) from None
    return function
