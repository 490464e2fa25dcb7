"""A handle on one job: look at it, wait for it, steer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from headgate.app.client import Client
from headgate.app.explain import Explanation, explanation
from headgate.app.failure import job_failed
from headgate.app.info import JobInfo, job_info
from headgate.app.new_arguments import new_arguments
from headgate.app.stream import JobUpdate, follow
from headgate.app.sync import SyncLoop, twin, waiting_twin
from headgate.clock import SECOND, duration_us
from headgate.engine.contract import Verdict
from headgate.engine.deadline import within
from headgate.errors import EngineUnavailable, HeadgateError, JobCancelled, JobNotFound, WrongState
from headgate.job import Job, JobState

R = TypeVar("R", covariant=True)

LAST_LOOK = 1.0
"""Seconds to find out how the job stands when the caller's time is over."""
ALLOWED = {
    "cancel": "scheduled, ready, waiting or running",
    "restart": "failed or cancelled",
    "expedite": "scheduled",
    "delete": "succeeded, failed or cancelled",
}


def not_found(id: str) -> JobNotFound:
    """The error for an id that no job has."""
    return JobNotFound(f"there is no job {id!r}; it may have been deleted, or never existed")


def refusal(verb: str, verdict: Verdict) -> HeadgateError:
    """The error that says why a verb did nothing."""
    if verdict.state is None:
        return not_found(verdict.id)
    if verb == "restart" and verdict.state in (JobState.FAILED, JobState.CANCELLED):
        return WrongState(
            f"cannot restart job {verdict.id!r}: another unfinished job has its unique key",
            verdict.state.value,
        )
    return WrongState(
        f"cannot {verb} job {verdict.id!r}: it is {verdict.state.value}, not {ALLOWED[verb]}",
        verdict.state.value,
    )


class Origin(Protocol):
    """How a job was enqueued that its store may not know of, or not yet."""

    def whereabouts(self) -> str:
        """Why the store does not know of it."""
        ...


async def _next(updates: AsyncGenerator[JobUpdate]) -> JobUpdate | None:
    return await anext(updates, None)


class JobHandle(Generic[R]):
    """One job of a store. `created` is False where enqueue returned an unfinished job with the same unique key."""

    __slots__ = ("_client", "_origin", "created", "id")

    def __init__(
        self, client: Client, id: str, *, created: bool = False, origin: Origin | None = None
    ) -> None:
        self._client = client
        self._origin = origin
        self.id = id
        self.created = created

    def become(self, stored: JobHandle[Any]) -> None:
        """Stand for what the store made of a job that was kept back."""
        self.id, self.created, self._origin = stored.id, stored.created, stored._origin

    @property
    def sync_loop(self) -> SyncLoop:
        """Where the sync twins run."""
        return self._client.sync_loop

    async def status(self) -> JobState:
        """Where the job stands."""
        state = (await (await self._client.engine()).states([self.id]))[0]
        if state is None:
            raise self._not_found()
        return state

    def _not_found(self) -> JobNotFound:
        if self._origin is None:
            return not_found(self.id)
        return JobNotFound(f"there is no job {self.id!r} in the store: {self._origin.whereabouts()}")

    async def info(self) -> JobInfo:
        """Everything about the job, with its attempts."""
        return job_info(await self._job(), self._client.sealing)

    async def progress(self) -> Any:
        """What the job last reported about its progress; None if nothing."""
        return self._client.decode_progress(await self._job())

    async def _job(self) -> Job:
        job = (await (await self._client.engine()).get([self.id]))[0]
        if job is None:
            raise self._not_found()
        return job

    async def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until the job has ended, for at most `timeout` seconds, and return what its task returned.

        Raises JobFailed or JobCancelled if it ended so, TimeoutError if it has not ended, JobNotFound if it is gone.
        A store that cannot be reached meanwhile is waited for, too.
        """
        job = await self._ended(None if timeout is None else duration_us(timeout, "timeout="))
        if job.state is JobState.FAILED:
            raise job_failed(job)
        if job.state is JobState.CANCELLED:
            raise JobCancelled(
                f"job {job.id!r} ({job.task}) was cancelled{f': {job.error}' if job.error else ''}"
            )
        return self._client.decode_result(job)

    async def _ended(self, timeout: int | None) -> Job:
        job = None
        if timeout == 0:
            job = await self._job()
        else:
            opened = await self._client.opened()
            try:
                async with asyncio.timeout(None if timeout is None else timeout / SECOND):
                    job = await opened.ended(self.id)
            except TimeoutError:
                job = await self._last_look(timeout or 0)
        if job is None:
            raise self._not_found()
        if not job.state.ended:
            raise TimeoutError(
                f"job {self.id!r} is still {job.state.value} after {(timeout or 0) / SECOND:g} s"
            )
        return job

    async def _last_look(self, timeout: int) -> Job:
        """The job as it stands when the time is over."""
        try:
            with within(LAST_LOOK):
                return await self._job()
        except EngineUnavailable as error:
            raise TimeoutError(
                f"job {self.id!r} has not ended after {timeout / SECOND:g} s, as far as is known: {error}"
            ) from error

    async def stream(self) -> AsyncGenerator[JobUpdate]:
        """What the job reports and where it stands, as it happens: the first update at once, the last one when it has
        ended. What is overtaken within a moment is left out. A store that cannot be reached meanwhile is waited for."""
        async for update in follow(await self._client.engine(), self._job, self._client.decode_progress):
            yield update

    def stream_sync(self) -> Generator[JobUpdate]:
        """`stream()` for code that cannot await."""
        self.sync_loop.worker_loops.refuse_to_block("stream")
        updates = self.stream()
        try:
            while (update := self.sync_loop.run(_next(updates))) is not None:
                yield update
        finally:
            self.sync_loop.run(updates.aclose())

    async def cancel(self) -> JobState:
        """End it: at once if it has not started, else by asking its worker. Returns the state it has now."""
        return await self._steer("cancel")

    async def restart(self, arguments: Mapping[str, Any] | None = None) -> JobState:
        """Run a failed or cancelled job again, with fresh retries; attempt numbers go on.

        `arguments` replace those of its arguments that they name. They are checked, and limits bound to them, as for a
        new job."""
        if arguments is None:
            return await self._steer("restart")
        job = await self._job()
        if job.state not in (JobState.FAILED, JobState.CANCELLED):
            raise refusal("restart", Verdict(self.id, done=False, state=job.state))
        return await self._steer("restart", arguments=new_arguments(self._client, job, arguments))

    async def expedite(self) -> JobState:
        """Make a scheduled job due now."""
        return await self._steer("expedite")

    async def delete(self) -> JobState:
        """Remove an ended job. Returns the state it had."""
        return await self._steer("delete")

    async def _steer(self, verb: str, **how: Any) -> JobState:
        verdict: Verdict = (await getattr(await self._client.engine(), verb)([self.id], **how))[0]
        if verdict.state is None:
            raise self._not_found()
        if not verdict.done:
            raise refusal(verb, verdict)
        return verdict.state

    async def explain(self) -> Explanation:
        """Why the job is where it is; `str()` of it is a sentence."""
        facts = await (await self._client.engine()).explain(self.id)
        if facts is None:
            raise self._not_found()
        return explanation(facts)

    status_sync = twin(status)
    info_sync = twin(info)
    progress_sync = twin(progress)
    result_sync = waiting_twin(result)
    cancel_sync = twin(cancel)
    restart_sync = twin(restart)
    expedite_sync = twin(expedite)
    delete_sync = twin(delete)
    explain_sync = twin(explain)

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and self.id == other.id and self._client is other._client  # pyright: ignore[reportUnknownMemberType]

    def __hash__(self) -> int:
        return hash(self.id)
