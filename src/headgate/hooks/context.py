"""What a running task may know about its own job, and say about it: `current_job()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from headgate.clock import from_us
from headgate.codec import NO_LIMIT, encode_text
from headgate.engine.contract import Attempt
from headgate.errors import CancelJob, ConfigError, HeadgateError
from headgate.headers import read_headers
from headgate.keys import Key, check_name, is_rate
from headgate.sealing import PLAIN, Sealing
from headgate.signatures import signature

MOST_UNITS = 2**31 - 1
MOST_PROGRESS = 64 * 1024
"""Bytes of one progress report: it is written again and again."""

ProgressSink = Callable[[Attempt, str], None]
SpentSink = Callable[[Attempt, str, int], None]
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A task's function and the arguments that came with the job."""


class JobContext:
    """The attempt that is running. Usable from the task's coroutine and its thread alike."""

    __slots__ = ("_attempt", "_call", "_cancelled", "_sealing", "_sink", "_spent", "_state", "_worker")

    def __init__(
        self,
        attempt: Attempt,
        sink: ProgressSink,
        worker: str = "",
        state: Any = None,
        call: Call | None = None,
        sealing: Sealing = PLAIN,
        spent: SpentSink | None = None,
    ) -> None:
        self._attempt = attempt
        self._sink = sink
        self._spent = spent
        self._cancelled = False
        self._worker = worker
        self._state = state
        self._call = call
        self._sealing = sealing

    @property
    def id(self) -> str:
        """The job's id."""
        return self._attempt.job

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1, 2, 3 … over the job's whole life."""
        return self._attempt.number

    @property
    def tries(self) -> int:
        """How many attempts have counted against the retry policy, this one included."""
        return self._attempt.tries

    @property
    def last_try(self) -> bool:
        """Whether the retry policy allows no further attempt after this one."""
        return self._attempt.tries >= self._attempt.retry.attempts

    @property
    def task(self) -> str:
        """The task's name."""
        return self._attempt.task

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._attempt.queue

    @property
    def tenant(self) -> str | None:
        """The job's tenant, if it has one."""
        return self._attempt.tenant or None

    @property
    def priority(self) -> int:
        """0 (first) to 99."""
        return self._attempt.priority

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that this job needs, those of its task and queue left out."""
        return tuple(dict.fromkeys(Key.of(key).name for key in self._attempt.keys or ()))

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given as `metadata=`; empty if nothing was."""
        text = self._attempt.metadata
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}

    @property
    def headers(self) -> dict[str, str]:
        """What was given as `headers=`, and what enqueue middleware added: a correlation id, say. Empty if nothing."""
        return read_headers(self._attempt.headers)

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments that came with the job, by name, as the function gets them; to be read only."""
        if self._call is None:
            return {}
        function, args, kwargs = self._call
        return MappingProxyType(signature(function).bind_partial(*args, **kwargs).arguments)

    @property
    def state(self) -> Any:
        """What the app's lifespan yielded in this worker; None without one."""
        return self._state

    @property
    def worker(self) -> str:
        """The id of the worker that runs this attempt."""
        return self._worker

    @property
    def enqueued_at(self) -> datetime:
        """When the job was enqueued."""
        return from_us(self._attempt.enqueued_at)

    @property
    def due(self) -> datetime:
        """From when on this attempt could have started: limits and busy workers are what it waited for since."""
        return from_us(self._attempt.due or self._attempt.enqueued_at)

    @property
    def started_at(self) -> datetime:
        """When this attempt was claimed."""
        return from_us(self._attempt.started_at)

    @property
    def previous_progress(self) -> Any:
        """What an earlier attempt last reported with `progress()`: the place to go on from; None if nothing."""
        one = self._attempt
        if one.progress is None:
            return None
        return msgspec.json.decode(
            self._sealing.open("progress", one.progress, one.task, one.job, one.tenant)
        )

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should end: its cancel was asked, its time is up, or its worker must stop.

        A thread cannot be interrupted; long synchronous code looks here from time to time.
        """
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """End the job as cancelled if that was asked: for synchronous code, between two steps."""
        if self._cancelled:
            raise CancelJob("stopped on request")

    def progress(self, value: Any) -> None:
        """Report how far this attempt is: any JSON value. Cheap; what is overtaken before it was sent is not sent."""
        one, sealing = self._attempt, self._sealing
        text = encode_text(value, "progress", NO_LIMIT if sealing.active else MOST_PROGRESS)
        self._sink(one, sealing.seal("progress", text, one.task, one.job, one.tenant, MOST_PROGRESS))

    def spent(self, limit: str, units: int) -> None:
        """Say what this attempt has really spent of a rate whose cost is an estimate: the difference is given back, or
        taken from later starts. May be said several times; the last word counts. Of a rate whose cost is no estimate
        nothing is corrected; a name that no rate of this job has raises ConfigError."""
        name = check_name(limit, "spent(limit)")
        self._check_rate(name)
        if isinstance(units, bool) or not isinstance(units, int) or not 0 <= units <= MOST_UNITS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"spent({limit!r}, {units!r}): a whole number from 0 is needed")
        if self._spent is not None:
            self._spent(self._attempt, name, units)

    def _check_rate(self, name: str) -> None:
        if self._attempt.keys is not None:
            rates = sorted({Key.of(key).name for key in self._attempt.keys if is_rate(key)})
            if name not in rates:
                raise ConfigError(f"spent({name!r}): {self._has_no('rate limit', rates)}")

    def check_throttled(self, name: str) -> None:
        """Raise ConfigError unless this job has a limit of this name; called by the worker."""
        caps = f"task:{self.task}", f"queue:{self.queue}"
        if self._attempt.keys is not None and name not in (*self.limits, *caps):
            raise ConfigError(f"Throttled(limit={name!r}): {self._has_no('limit', self.limits)}")

    def _has_no(self, what: str, names: Sequence[str]) -> str:
        return f"job {self.id} of task {self.task} has no such {what}; it has {', '.join(names) or 'none'}"

    def ask_to_end(self) -> None:
        """Raise the flag that `cancelled` shows; called by the worker."""
        self._cancelled = True

    def __repr__(self) -> str:
        return f"<JobContext {self.task} {self.id} attempt {self.attempt}>"


CURRENT: ContextVar[JobContext] = ContextVar("headgate_current_job")


def current_job() -> JobContext:
    """The job that the calling code runs for."""
    context = CURRENT.get(None)
    if context is None:
        raise HeadgateError("current_job() was called outside of a job; it works in code that a worker runs")
    return context
