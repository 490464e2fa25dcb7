"""Rows of the jobs table as records, and records as the arrays that the functions take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from headgate.engine.contract import (
    Attempt,
    Done,
    Failed,
    Limit,
    NewArguments,
    Progress,
    Released,
    Report,
    Snoozed,
    Spent,
    Stopped,
    Succeeded,
    Throttled,
)
from headgate.engine.postgres.wire import (
    Numbers,
    Texts,
    got,
    got_if,
    got_key,
    put,
    put_error,
    put_if,
    put_key,
)
from headgate.job import Job, JobState, NewJob, PastAttempt
from headgate.keys import Key, Use
from headgate.retry import RetryPolicy

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_read_retry: Callable[[str], RetryPolicy] = lru_cache(1000)(msgspec.json.Decoder(RetryPolicy).decode)
_read_history = msgspec.json.Decoder(tuple[PastAttempt, ...]).decode
_STATES = {state.value: state for state in JobState}
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, IndexError)
"""What reading a garbled text or array can raise."""


def to_json(value: Any) -> str:
    """JSON as the driver wants it."""
    return _encode(value).decode()


write_retry: Callable[[RetryPolicy], str] = lru_cache(1000)(to_json)


def read_state(text: str) -> JobState:
    """A stored state. One that is none counts as failed: a recheck ends such jobs."""
    return _STATES.get(text, JobState.FAILED)


def is_state(text: str) -> bool:
    """Whether a stored text is a state."""
    return text in _STATES


def uses(
    keys: Sequence[str] | None,
    units: Sequence[int | str] | None,
    numbers: Sequence[str | None] | None = None,
) -> tuple[Use, ...]:
    """A job's needs."""
    found = tuple(
        Use(Key.of(got_key(key)).ident, int(each)) for key, each in zip(keys or (), units or (), strict=True)
    )
    if numbers is None:
        return found
    return tuple(
        use if number is None else Use(use.key, use.units, int(number))
        for use, number in zip(found, numbers, strict=True)
    )


def uses_if_readable(keys: Sequence[str] | None, units: Sequence[int | str] | None) -> tuple[Use, ...]:
    """The same; nothing where they were garbled."""
    try:
        return uses(keys, units)
    except UNREADABLE:
        return ()


def _read_key(ident: str | None) -> str | None:
    return None if ident is None else Key.of(got_key(ident)).ident


def is_ident(text: str) -> bool:
    """Whether a text can be read as a key."""
    try:
        return Key.of(text).ident == text
    except UNREADABLE:
        return False


class Readable:
    """Reads the parts of a stored row. One that was garbled counts as empty, and `problem` says which it was."""

    def __init__(self) -> None:
        self.problem: str | None = None

    def read(self, what: str, read: Callable[..., T], *stored: Any, otherwise: T) -> T:
        """One part."""
        try:
            return read(*stored)
        except UNREADABLE as error:
            self.problem = unreadable(f"{what}: {error}")
            return otherwise


def unreadable(what: str) -> str:
    """Why a job fails whose stored row cannot be read."""
    return f"the stored job cannot be read ({what})"


def history(text: str | None) -> tuple[PastAttempt, ...]:
    """Ended attempts."""
    if text is None:
        return ()
    return tuple(
        msgspec.structs.replace(past, worker=got(past.worker), error=got_if(past.error))
        for past in _read_history(text)
    )


def job(row: Sequence[Any]) -> Job:
    """A row of get.sql or find.sql."""
    (
        _, id, task, queue, tenant, priority, due, stands, enqueued_at, args, keys, units, retry, timeout, unique,
        metadata, retention, waiting_on, _, attempt, tries, worker, started_at, ended_at, _, cancel_requested,
        error, result, progress, past, suspicion, lost, headers, share, tag, start_by, numbers,
    ) = row  # fmt: skip
    stored = Readable()
    needs = stored.read("its limits", uses, keys, units, numbers, otherwise=())
    policy = stored.read("its retry policy", _read_retry, retry, otherwise=RetryPolicy())
    ended = stored.read("its history", history, past, otherwise=())
    shown = stored.read("its state", JobState, stands, otherwise=JobState.FAILED)
    awaited = stored.read("the key it waits on", _read_key, waiting_on, otherwise=None)
    return Job(
        id=got(id), task=got(task), queue=got(queue), args=got(args), tenant=got(tenant), priority=priority,
        state=shown, due=due, enqueued_at=enqueued_at, uses=needs, retry=policy,
        timeout=timeout, unique=got_if(unique), metadata=got_if(metadata), retention=retention,
        waiting_on=awaited, attempt=attempt, tries=tries, worker=got_if(worker),
        started_at=started_at, ended_at=ended_at, cancel_requested=cancel_requested,
        error=got_if(error) or stored.problem, result=got_if(result), progress=got_if(progress), history=ended,
        suspicion=suspicion, lost=lost, headers=got_if(headers), start_by=start_by, share=got_if(share), tag=tag,
    )  # fmt: skip


def attempts(started: list[Any], now: int) -> tuple[tuple[Attempt, ...], list[Failed]]:
    """What an exchange claimed: a row for each, place first. Those that cannot be read are to be reported as failed."""
    started.sort(key=itemgetter(0))
    found: list[Attempt] = []
    failed: list[Failed] = []
    for row in started:
        try:
            policy = _read_retry(row["retry"])
        except UNREADABLE as error:
            failed.append(Failed(got(row["id"]), row["number"], unreadable(f"its retry policy: {error}")))
            continue
        if row["readable"]:
            found.append(_attempt(row, policy, now, row["next_due"] or 0))
        else:
            failed.append(Failed(got(row["id"]), row["number"], unreadable("its limits")))
    return tuple(found), failed


def _attempt(row: Any, policy: RetryPolicy, now: int, due: int) -> Attempt:
    (
        _,
        id,
        number,
        task,
        queue,
        args,
        tenant,
        priority,
        tries,
        _,
        timeout,
        metadata,
        enqueued,
        progress,
        suspicion,
        *_,
    ) = row
    return Attempt(
        got(id), number, got(task), got(queue), got(args), got(tenant), priority, tries, policy, timeout,
        got_if(metadata), enqueued, now, got_if(progress), suspicion, due, got_if(row["headers"]),
        tuple(map(got_key, row["keys"] or ())),
    )  # fmt: skip


def enqueued(jobs: Sequence[NewJob]) -> tuple[list[Any], ...]:
    """The arrays that `_enqueue` takes: one per column, then the needs of all jobs, then the limits they name.

    A column in which all jobs agree has one entry, and so has a batch of equals; unique keys are looked up by place.
    """
    use_jobs: list[int] = []
    use_keys: list[str] = []
    use_units: list[int] = []
    for number, each in enumerate(jobs, 1):
        for use in each.uses:
            use_jobs.append(number)
            use_keys.append(put_key(use.key))
            use_units.append(use.units)
    if use_jobs == list(range(1, len(jobs) + 1)):
        use_jobs = []
    named = {(key.name, key.rate): None for key in map(Key.of, dict.fromkeys(use_keys))}
    uniques = [put_if(each.unique) for each in jobs]
    shrink = _whole if any(unique is not None for unique in uniques) else _shrunk
    return (
        [put(each.id) for each in jobs],
        [put(task) for task in shrink([each.task for each in jobs])],
        [put(queue) for queue in shrink([each.queue for each in jobs])],
        [put(args) for args in shrink([each.args for each in jobs])],
        [put(tenant) for tenant in shrink([each.tenant for each in jobs])],
        shrink([each.priority for each in jobs]),
        shrink([each.delay for each in jobs]),
        shrink([each.at for each in jobs]),
        [write_retry(retry) for retry in shrink([each.retry for each in jobs])],
        shrink([each.timeout for each in jobs]),
        shrink(uniques),
        shrink([each.on_conflict for each in jobs]),
        [put_if(metadata) for metadata in shrink([each.metadata for each in jobs])],
        [put_if(headers) for headers in shrink([each.headers for each in jobs])],
        shrink([each.retention for each in jobs]),
        use_jobs,
        use_keys,
        use_units,
        [name for name, _ in named],
        [rate for _, rate in named],
    )


def more(jobs: Sequence[NewJob]) -> str | None:
    """What few jobs bring, as JSON; None where none does."""
    brought = [_brought(each) for each in jobs]
    numbers = [use.number for each in jobs for use in each.uses]
    found = {
        **({"jobs": _shrunk(brought)} if any(brought) else {}),
        **({"numbers": numbers} if any(number is not None for number in numbers) else {}),
    }
    return to_json(found) if found else None


def _brought(job: NewJob) -> dict[str, Any]:
    if (
        job.share is None
        and job.start_within is None
        and job.start_by is None
        and job.at_most is None
        and job.unique_for is None
    ):
        return {}
    return {
        "share": put_if(job.share), "by_time": job.charge == "time" or None, "start_by": job.start_by,
        "start_within": job.start_within, "at_most": job.at_most, "unique_for": job.unique_for,
    }  # fmt: skip


def _whole(values: list[Any]) -> list[Any]:
    return values


def _shrunk(values: list[Any]) -> list[Any]:
    return values[:1] if values and values.count(values[0]) == len(values) else values


def declared(limits: Sequence[Limit]) -> str | None:
    """Limits as JSON; None where there are none."""
    if not limits:
        return None
    return to_json([msgspec.structs.replace(limit, name=put(limit.name)) for limit in limits])


def done(said: Sequence[Done]) -> str | None:
    """What a worker has done as JSON; None where it has done nothing."""
    if not said:
        return None
    return to_json([msgspec.structs.replace(one, queue=put(one.queue), task=put(one.task)) for one in said])


def new_arguments(
    arguments: NewArguments | None,
) -> tuple[str | None, list[str], Numbers, Numbers, str | None]:
    """What `steer` takes: arguments, keys, units, numbers, share."""
    if arguments is None:
        return None, [], Numbers.of(()), Numbers.of(()), None
    uses = arguments.uses
    return (
        put(arguments.args),
        [put_key(use.key) for use in uses],
        Numbers.of(use.units for use in uses),
        Numbers.of(use.number for use in uses),
        put_if(arguments.share),
    )


def parked(keys: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The limits of the keys that refused jobs, with how many each."""
    if not keys:
        return ()
    return tuple(sorted(Counter(Key.of(got_key(key)).name for key in keys).items()))


class Reports:
    """What a worker reports, as arrays with at most one outcome per attempt; a second one is refused here."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = reports
        self.sent: Sequence[Report] = reports
        self._place: list[int | None] | None = None  # of each report in what is sent; None: its own
        if len({(report.job, report.attempt) for report in reports}) < len(reports):
            self._sort()

    def _sort(self) -> None:
        """Some attempts have several reports: progress, what they spent and an outcome, or two of a kind."""
        self.sent = sent = list[Report]()
        self._place = place = list[int | None]()
        outcomes: set[tuple[str, int]] = set()
        said: dict[tuple[str, int, str | None], int] = {}
        for report in self.reports:
            attempt = (report.job, report.attempt)
            if attempt in outcomes:
                place.append(None)
            elif isinstance(report, Progress | Spent):
                what = (*attempt, report.name if isinstance(report, Spent) else None)
                place.append(said.setdefault(what, len(sent)))
                sent[said[what] : said[what] + 1] = [report]  # the last word counts
            else:
                place.append(len(sent))
                outcomes.add(attempt)
                sent.append(report)

    def arrays(self) -> tuple[Texts | Numbers, ...]:
        """Ids, attempts, kinds, texts, times."""
        said = [_said(report) for report in self.sent]
        return (
            Texts.of([put(report.job) for report in self.sent]),
            Numbers.of([report.attempt for report in self.sent]),
            Texts("{" + ",".join([kind for kind, _, _ in said]) + "}"),
            Texts.of([text for _, text, _ in said]),
            Numbers.of([time for _, _, time in said]),
        )

    def refused(self, places: Sequence[str] | None) -> tuple[tuple[str, int], ...]:
        """The reports that the fence refused, in their order."""
        wrong = {int(place) - 1 for place in places or ()}
        if not wrong and self._place is None:
            return ()
        return tuple(
            (report.job, report.attempt)
            for report, place in zip(self.reports, self._place or range(len(self.reports)), strict=True)
            if place is None or place in wrong
        )


def _said(report: Report) -> tuple[str, str | None, int | None]:
    match report:
        case Succeeded():
            return "s", put(report.result), None
        case Failed():
            return "f", put_error(report.error), report.retry_in
        case Snoozed():
            return "z", None, report.delay
        case Stopped():
            return "c", put_error(report.error), None
        case Released():
            return "r", None, None
        case Throttled():
            return "t", put_if(report.name), report.delay
        case Spent():
            return "w", put(report.name), report.units
        case Progress():
            return "p", put(report.value), None
