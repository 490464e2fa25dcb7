"""A job for code that asks for `current_job()` and is called without a worker."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.engine.contract import Attempt
    from headgate.retry import Retry

MOST = 1024 * 1024


class FakeJob:
    """What a test sees of it: `context` is what `current_job()` gives, `progress` what was reported, in order, `spent`
    what it said that it spent of each limit."""

    def __init__(self, attempt: Attempt, worker: str, state: Any, args: Mapping[str, Any]) -> None:
        from headgate.hooks.context import JobContext

        self.progress: list[Any] = []
        self.spent: dict[str, int] = {}
        call = _taking(args), (), dict(args)
        self.context = JobContext(attempt, self._take, worker, state, call, spent=self._spend)

    def _take(self, attempt: Attempt, text: str) -> None:
        from headgate.codec import decode

        self.progress.append(decode(text))

    def _spend(self, attempt: Attempt, limit: str, units: int) -> None:
        self.spent[limit] = units

    def cancel(self) -> None:
        """Ask it to end, as a worker does: `current_job().cancelled` is true from now on."""
        self.context.ask_to_end()


def _taking(args: Mapping[str, Any]) -> Callable[..., None]:
    """A function with these parameters: a context reads its job's arguments off the task's own."""

    def function(**given: Any) -> None: ...

    kinds = [Parameter(name, Parameter.KEYWORD_ONLY) for name in args]
    function.__signature__ = Signature(kinds)  # pyright: ignore[reportFunctionMemberAccess]
    return function


@contextmanager
def fake_job(
    task: str = "task",
    *,
    id: str = "fake",
    queue: str = "default",
    tenant: str | None = None,
    attempt: int = 1,
    tries: int | None = None,
    retry: Retry | None = None,
    priority: int = 50,
    metadata: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    previous_progress: Any = None,
    args: Mapping[str, Any] | None = None,
    state: Any = None,
    worker: str = "fake",
) -> Generator[FakeJob]:
    """Inside the block `current_job()` is this job: call the task's function and look at what it did."""
    from headgate.clock import now_us
    from headgate.codec import encode_text
    from headgate.engine.contract import Attempt
    from headgate.headers import headers_text
    from headgate.hooks.context import CURRENT
    from headgate.retry import Retry

    now = now_us()
    made = FakeJob(
        Attempt(
            job=id,
            number=attempt,
            task=task,
            queue=queue,
            args="{}",
            tenant=tenant or "",
            priority=priority,
            tries=attempt if tries is None else tries,
            retry=(retry or Retry()).policy,
            timeout=None,
            metadata=None if metadata is None else encode_text(metadata, "metadata", MOST),
            headers=None if headers is None else headers_text(headers),
            enqueued_at=now,
            started_at=now,
            progress=None if previous_progress is None else encode_text(previous_progress, "progress", MOST),
        ),
        worker,
        state,
        args or {},
    )
    token = CURRENT.set(made.context)
    try:
        yield made
    finally:
        CURRENT.reset(token)
