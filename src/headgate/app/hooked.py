"""What an app hangs around its work: middleware, listeners, and in tests other dependencies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headgate.app.client import Client
from headgate.app.signature import hints_of
from headgate.hooks.carried import Give, Take
from headgate.hooks.enqueueing import (
    AroundEnqueue,
    EnqueueMiddleware,
    check_around_enqueue,
    check_enqueue_middleware,
)
from headgate.hooks.events import JobEvent, JobEventName, WorkerEvent, WorkerEventName
from headgate.hooks.listeners import check_names
from headgate.hooks.middleware import Middleware, check_middleware

if TYPE_CHECKING:
    from headgate.worker import Event

M = TypeVar("M", bound=Middleware)
E = TypeVar("E", bound=EnqueueMiddleware)
A = TypeVar("A", bound=AroundEnqueue)
J = TypeVar("J", bound=Callable[[JobEvent], Any])
W = TypeVar("W", bound=Callable[[WorkerEvent], Any])
L = TypeVar("L", bound="Callable[[Event], None]")


class Hooked:
    """The part of an app that stands around its jobs and listens to them."""

    _client: Client

    def middleware(self, function: M, /) -> M:
        """Put `async def around(job, call_next)` around every attempt, inside the middleware that was added before."""
        self._client.hooks.middleware.append(check_middleware(function))
        return function

    def enqueue_middleware(self, function: E, /) -> E:
        """Call `def add(job)` with each job before it is enqueued, periodic ones included; it may be async. The mapping
        that it returns is added to the job's headers; what it raises refuses the job, and all that come with it."""
        self._client.hooks.enqueueing.middleware.append(check_enqueue_middleware(function))
        return function

    def around_enqueue(self, function: A, /) -> A:
        """Put `async def around(jobs, call_next)` around every enqueue, inside what was put around before.

        `call_next()` returns the handles, or raises what the enqueue raises. It is called once for all jobs of a call,
        and not for periodic ones."""
        self._client.hooks.enqueueing.around.append(check_around_enqueue(function))
        return function

    def carry(self, name: str, *, give: Give, take: Take) -> None:
        """Let texts travel with each attempt to the process of the pool that runs it.

        `give()` returns them in the worker, inside the attempt's middleware; `take(texts)` is a context manager around
        the task's function in that process, where the same app is loaded."""
        self._client.hooks.carried.add(name, give, take)

    def on_worker_event(self, function: L, /) -> L:
        """Tell a function of each `Event` in the workers that this app makes from now on, as `Worker.on_event` does."""
        self._client.hooks.worker_listeners.append(function)
        return function

    def override(self, factory: Callable[..., Any], fake: Callable[..., Any]) -> AbstractContextManager[None]:
        """Let tasks depend on what another function makes for a while: `with app.override(make_client, fake): …`."""
        return self._client.hooks.override(factory, fake, lambda function: hints_of(function, "override"))

    @overload
    def on(self, name: JobEventName, /, *names: JobEventName) -> Callable[[J], J]: ...
    @overload
    def on(self, name: JobEventName, fn: J, /) -> J: ...
    @overload
    def on(self, name: WorkerEventName, /, *names: WorkerEventName) -> Callable[[W], W]: ...
    @overload
    def on(self, name: WorkerEventName, fn: W, /) -> W: ...
    def on(self, *given: Any) -> Any:
        """Listen: `@app.on("failed", "lost")` above a function, or `app.on("failed", function)`.

        The function may be async. It gets a JobEvent, or a WorkerEvent; what it raises is logged and changes nothing.
        """
        called = bool(given) and not isinstance(given[-1], str)
        names = check_names(given[:-1] if called else given)

        def listen(fn: Any) -> Any:
            self._client.hooks.listeners.add(names, fn)
            return fn

        return listen(given[-1]) if called else listen
