"""The worker's side of a store for programs that are no Python worker: over HTTP, say, in any language.

A remote worker does what `headgate.worker` does, by the same verbs and under the same rules: it registers, renews its
lease, exchanges outcomes for jobs with a number that grows, and after any doubt says what it runs. What is said here in
seconds and JSON values becomes the records of the contract; nothing is kept between two calls.

A store of several partitions is asked partition by partition. A report goes to all of them, since only one knows the
job; it is refused if all refuse it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, assert_never

import msgspec

from headgate.app.client import Client
from headgate.clock import SECOND, duration_us, from_us
from headgate.codec import decode, encode_text
from headgate.engine.contract import (
    Attempt,
    Failed,
    Outcome,
    Part,
    Progress,
    Released,
    Report,
    Snoozed,
    Spent,
    Stopped,
    Succeeded,
    Throttled,
    Worker,
)
from headgate.errors import ConfigError, PayloadError
from headgate.headers import read_headers
from headgate.job import INTERNAL_QUEUE, Job
from headgate.keys import Key, check_text, is_rate
from headgate.sealing import PayloadKind

if TYPE_CHECKING:
    from headgate.worker.run.tally import Tally

LEASES = 5.0, 3600.0
"""The shortest and the longest lease, in seconds."""
MOST_WANT = 1000
MOST_PROGRESS = 64 * 1024
Ended = Literal["succeeded", "failed", "snoozed", "throttled", "cancelled", "released", "progress", "spent"]


class RemoteWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A registration: its lease is to be renewed every `beat` seconds, and lapses after `lease` without that."""

    worker: str
    lease: float
    beat: float
    now: datetime


class RemoteAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A job to run. `retry_in` is what to report if it fails and may be tried again: seconds, or null where its policy
    allows no further attempt. `timeout` is how many seconds it may take. `limits` are the names that reports of `spent`
    and `throttled` may give."""

    job: str
    attempt: int
    task: str
    queue: str
    args: Any
    tenant: str | None
    priority: int
    tries: int
    retry_in: float | None
    timeout: float | None
    metadata: Any
    headers: dict[str, str]
    limits: tuple[str, ...]
    progress: Any
    enqueued_at: datetime
    due: datetime
    started_at: datetime


class RemoteReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of an attempt: `result` belongs to succeeded, `error` to failed and cancelled, `retry_in` (seconds;
    null ends the job) to failed, `delay` to snoozed and throttled, `limit` to throttled (null: its rate, else its
    concurrency limit) and spent, `units` to spent, `value` to progress; progress and spent end nothing."""

    job: str
    attempt: int
    outcome: Ended
    result: Any = None
    error: str | None = None
    retry_in: float | None = None
    delay: float | None = None
    value: Any = None
    limit: str | None = None
    units: int | None = None


class RemoteExchanged(msgspec.Struct, frozen=True, kw_only=True):
    """`refused` are the reports (job and attempt) that changed nothing, since the attempt is no longer this worker's;
    `cancelling` the jobs that should stop; `more` says that asking again at once may bring more."""

    attempts: tuple[RemoteAttempt, ...]
    refused: tuple[tuple[str, int], ...]
    cancelling: tuple[str, ...]
    more: bool
    now: datetime


class RemoteBeat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat."""

    cancelling: tuple[str, ...]
    now: datetime


class RemoteResumed(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the named attempts are still the worker's, how many others were taken back, and which should stop."""

    alive: tuple[tuple[str, int], ...]
    taken_back: int
    cancelling: tuple[str, ...]
    now: datetime


class RemoteWork:
    """Registers, exchanges, renews and retires on behalf of workers elsewhere.

    What their attempts came to is counted here for the history, and told with the next heartbeat of any of them."""

    def __init__(self, client: Client, tally: Tally) -> None:
        self._client = client
        self._tally = tally

    async def register(
        self,
        tasks: Sequence[str],
        *,
        queues: Sequence[str] | None = None,
        lease: float = 30,
        concurrency: int = 10,
        name: str = "remote",
        host: str = "",
    ) -> RemoteWorker:
        """Begin a lease under a new id."""
        if not tasks:
            raise ConfigError("tasks: a worker names the tasks that it can run")
        if not LEASES[0] <= lease <= LEASES[1]:
            raise ConfigError(f"lease={lease!r}: from {LEASES[0]:g} to {LEASES[1]:g} seconds")
        worker = Worker(
            id=f"{check_text(name, 'worker name')}-{os.urandom(6).hex()}",
            tasks=frozenset(check_text(task, "task name") for task in tasks),
            queues=None if queues is None else tuple(_queue(queue) for queue in queues),
            lease=duration_us(lease, "lease="),
            host=host,
            concurrency=_count(concurrency, "concurrency", 1),
        )
        now = max([await part.register(worker) for part in await self._parts()])
        return RemoteWorker(worker=worker.id, lease=lease, beat=lease / 3, now=from_us(now))

    async def exchange(
        self,
        worker: str,
        number: int,
        reports: Sequence[RemoteReport] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
        wait: float = 0,
    ) -> RemoteExchanged:
        """Report what ended, and claim up to `want` jobs.

        If there is none, the answer comes when there may be one, or after `wait` seconds: then ask again. Raises
        StaleMessage for a number that is not larger than the last one that took effect, and LeaseLost.
        """
        said = await self._reports(reports)
        left = _count(want, "want", 0)
        parts = await self._parts()
        attempts, cancelling = list[RemoteAttempt](), list[str]()
        accepted, more, now = set[tuple[str, int]](), False, 0
        bell = asyncio.Event()
        stops = [part.watch_work(_ringing(bell), queues) for part in parts] if wait > 0 else []
        try:
            for part in _rotated(parts, number):
                answer = await part.exchange(worker, said, left, queues, number=number)
                refused = set(answer.refused)
                accepted |= {(one.job, one.attempt) for one in said} - refused
                attempts += await self._readable(part, worker, answer.attempts)
                cancelling += answer.cancelling
                left -= len(answer.attempts)
                more, now = more or answer.more, max(now, answer.now)
            if stops and not (attempts or more or cancelling or reports):
                await _ring_or(bell, wait)
        finally:
            for stop in stops:
                stop()
        await self._count([one for one in said if (one.job, one.attempt) in accepted])
        return RemoteExchanged(
            attempts=tuple(attempts),
            refused=tuple(known for one in said if (known := (one.job, one.attempt)) not in accepted),
            cancelling=tuple(cancelling),
            more=more,
            now=from_us(now),
        )

    async def heartbeat(self, worker: str) -> RemoteBeat:
        """Renew the lease; raises LeaseLost when it has lapsed."""
        parts = await self._parts()
        beats = [
            await part.heartbeat(worker, done=self._tally.take() if part is parts[0] else ())
            for part in parts
        ]
        cancelling = tuple(job for beat in beats for job in beat.cancelling)
        return RemoteBeat(cancelling=cancelling, now=from_us(max(beat.now for beat in beats)))

    async def resume(self, worker: str, number: int, known: Sequence[tuple[str, int]]) -> RemoteResumed:
        """After any doubt: these (job, attempt) pairs are what the worker runs or has yet to report; the store takes
        back what else it holds for this worker."""
        answers = [await part.resume_worker(worker, number, known) for part in await self._parts()]
        return RemoteResumed(
            alive=tuple(pair for answer in answers for pair in answer.alive),
            taken_back=sum(answer.taken_back for answer in answers),
            cancelling=tuple(job for answer in answers for job in answer.cancelling),
            now=from_us(max(answer.now for answer in answers)),
        )

    async def retire(self, worker: str) -> None:
        """End the lease; what still runs under it is given back, uncounted."""
        for part in await self._parts():
            await part.retire(worker)

    async def _count(self, said: Sequence[Report]) -> None:
        """Count what has ended, for the history."""
        ended = {one.job: one for one in said if not isinstance(one, Progress | Spent)}
        if not ended:
            return
        engine = await self._client.engine()
        for job in await engine.get(list(ended)):
            if job is not None and job.started_at is not None:
                ran = (job.ended_at or await engine.clock()) - job.started_at
                self._tally.ended(_counted(job, job.started_at), ended[job.id], ran / SECOND, begun=False)

    async def _parts(self) -> Sequence[Part]:
        return (await self._client.engine()).parts()

    async def _readable(self, part: Part, worker: str, attempts: Sequence[Attempt]) -> list[RemoteAttempt]:
        """What was claimed, as it is told. What cannot be read here fails at once: no worker could run it."""
        readable, failed = list[RemoteAttempt](), list[Failed]()
        for attempt in attempts:
            try:
                readable.append(self._attempt(attempt))
            except (PayloadError, msgspec.MsgspecError) as error:
                failed.append(Failed(attempt.job, attempt.number, str(error)))
        if failed:
            await part.exchange(worker, failed, 0)
        return readable

    async def _reports(self, reports: Sequence[RemoteReport]) -> list[Report]:
        """As the store takes them. A codec is told what a payload belongs to, and a limit that is named must be one of
        the job's; the store knows."""
        sealed = self._client.sealing.active
        asked = [report.job for report in reports if sealed or report.limit is not None]
        jobs = await (await self._client.engine()).get(asked) if asked else []
        owners = {job.id: job for job in jobs if job is not None}
        for report in reports:
            _check_limit(report, owners.get(report.job))
        return [self._report(report, owners.get(report.job)) for report in reports]

    def _report(self, report: RemoteReport, owner: Job | None) -> Report:
        if report.outcome == "progress":
            text = encode_text(report.value, f"progress of job {report.job!r}", MOST_PROGRESS)
            return Progress(report.job, report.attempt, self._sealed("progress", text, owner))
        if report.outcome == "spent":
            if report.limit is None or report.units is None or report.units < 0:
                raise ConfigError(f"the report about job {report.job!r}: spent needs limit and units from 0")
            return Spent(report.job, report.attempt, report.limit, report.units)
        if report.outcome == "succeeded":
            text = encode_text(report.result, f"result of job {report.job!r}", self._client.json_limit)
            return Succeeded(report.job, report.attempt, self._sealed("result", text, owner))
        return _outcome(report)

    def _sealed(self, kind: PayloadKind, text: str, owner: Job | None) -> str:
        """A job that is gone has no owner; its report is refused whatever it says."""
        if owner is None:
            return text
        return self._client.sealing.seal(kind, text, owner.task, owner.id, owner.tenant)

    def _attempt(self, attempt: Attempt) -> RemoteAttempt:
        def opened(kind: PayloadKind, text: str | None) -> Any:
            if text is None:
                return None
            return decode(self._client.sealing.open(kind, text, attempt.task, attempt.job, attempt.tenant))

        policy = attempt.retry
        again = attempt.tries < policy.attempts
        return RemoteAttempt(
            job=attempt.job,
            attempt=attempt.number,
            task=attempt.task,
            queue=attempt.queue,
            args=opened("args", attempt.args),
            tenant=attempt.tenant or None,
            priority=attempt.priority,
            tries=attempt.tries,
            retry_in=policy.wait_with_jitter(attempt.tries) / SECOND if again else None,
            timeout=None if attempt.timeout is None else attempt.timeout / SECOND,
            metadata=None if attempt.metadata is None else decode(attempt.metadata),
            headers=read_headers(attempt.headers),
            limits=tuple(dict.fromkeys(Key.of(key).name for key in attempt.keys or ())),
            progress=opened("progress", attempt.progress),
            enqueued_at=from_us(attempt.enqueued_at),
            due=from_us(attempt.due or attempt.enqueued_at),
            started_at=from_us(attempt.started_at),
        )


def _counted(job: Job, started_at: int) -> Attempt:
    """A job's last attempt, as far as it is counted."""
    return Attempt(
        job.id, job.attempt, job.task, job.queue, "", job.tenant, job.priority, job.tries, job.retry, None, None,
        job.enqueued_at, started_at, due=job.due,
    )  # fmt: skip


def _check_limit(report: RemoteReport, owner: Job | None) -> None:
    """A misspelt name would correct and close nothing."""
    if owner is None or report.limit is None or report.outcome not in ("spent", "throttled"):
        return
    spent = report.outcome == "spent"
    names = {Key.of(use.key).name for use in owner.uses if is_rate(use.key) or not spent}
    caps = () if spent else (f"task:{owner.task}", f"queue:{owner.queue}")
    if report.limit not in names.union(caps):
        what = "rate limit" if spent else "limit"
        raise ConfigError(
            f"the report about job {owner.id!r}: it has no {what} {report.limit!r}; it has "
            f"{', '.join(sorted(names)) or 'none'}"
        )


def _outcome(report: RemoteReport) -> Outcome:
    job, attempt = report.job, report.attempt
    match report.outcome:
        case "failed":
            wait = None if report.retry_in is None else duration_us(report.retry_in, "retry_in")
            return Failed(job, attempt, report.error or "failed", wait)
        case "snoozed":
            if report.delay is None:
                raise ConfigError(f"the report about job {job!r}: snoozed needs delay, in seconds")
            return Snoozed(job, attempt, duration_us(report.delay, "delay"))
        case "throttled":
            if report.delay is None:
                raise ConfigError(f"the report about job {job!r}: throttled needs delay, in seconds")
            return Throttled(job, attempt, duration_us(report.delay, "delay"), report.limit)
        case "cancelled":
            return Stopped(job, attempt, report.error)
        case "released":
            return Released(job, attempt)
        case "succeeded" | "progress" | "spent":
            raise AssertionError(report.outcome)  # these have payloads
        case _:
            assert_never(report.outcome)


def _rotated(parts: Sequence[Part], number: int) -> list[Part]:
    """Each part is asked first in its turn, so that none starves."""
    first = number % len(parts)
    return [*parts[first:], *parts[:first]]


def _ringing(bell: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def ring() -> None:
        with suppress(RuntimeError):  # the loop is closed, and the waiting caller gone with it
            loop.call_soon_threadsafe(bell.set)

    return ring


async def _ring_or(bell: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()


def _queue(name: str) -> str:
    if name == INTERNAL_QUEUE:
        raise ConfigError(f"queue {name!r} is for Headgate's own workers")
    return check_text(name, "queue")


def _count(value: int, what: str, least: int) -> int:
    if isinstance(value, bool) or not least <= value <= MOST_WANT:
        raise ConfigError(f"{what}={value!r}: from {least} to {MOST_WANT:,}")
    return value
