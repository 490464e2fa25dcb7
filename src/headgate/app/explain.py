"""Why a job is where it is, in words. Engines find the facts; the wording lives here, once."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from headgate.app.info import Info
from headgate.clock import SECOND, from_us, span
from headgate.engine.contract import Facts, Holder, LimitStatus
from headgate.engine.rules.blame import APART, GRAVE
from headgate.job import Job, JobState


class Explanation(Info, frozen=True):
    """The answer to "why is it waiting?". `str()` of it is the sentence.

    `key` is what a waiting job waits on, `holders` the ids of up to ten jobs that hold it, `place` its place in line
    (1 is next), `earliest` when a rate will have its tokens at the soonest.
    """

    id: str
    state: JobState
    sentence: str
    key: str | None = None
    tenant: str | None = None
    holders: tuple[str, ...] = ()
    place: int | None = None
    earliest: datetime | None = None

    def __str__(self) -> str:
        return self.sentence


def explanation(facts: Facts) -> Explanation:
    """The facts about a job, put into words."""
    job, limit = facts.job, facts.limit
    return Explanation(
        id=job.id,
        state=job.state,
        sentence=f"Job {job.id} ({job.task}) {_predicate(facts)}{_shared(facts)}{_expiring(facts)}{_suspected(job)}.",
        key=None if limit is None else limit.key,
        tenant=job.tenant or None,
        holders=tuple(holder.job for holder in facts.holders),
        place=facts.place,
        earliest=None if facts.earliest is None else from_us(facts.earliest),
    )


def _predicate(facts: Facts) -> str:
    match facts.job.state:
        case JobState.SCHEDULED:
            return _scheduled(facts)
        case JobState.READY:
            return f"is ready in queue {facts.job.queue!r}: {_ready(facts)}"
        case JobState.WAITING:
            return _waiting(facts)
        case JobState.RUNNING:
            return _running(facts)
        case JobState.SUCCEEDED | JobState.FAILED | JobState.CANCELLED:
            return _ended(facts)
        case _:
            assert_never(facts.job.state)


def _shared(facts: Facts) -> str:
    """Its place among the shares of its queue: lines are in their order, not in that of arrival."""
    job = facts.job
    if job.share is None or job.state not in (JobState.READY, JobState.WAITING):
        return ""
    weight = "" if facts.weight is None else f" (weight {facts.weight:g})"
    return f"; its queue is shared, and it stands in line for share {job.share!r}{weight}"


def _expiring(facts: Facts) -> str:
    if facts.job.start_by is None or facts.job.state.ended:
        return ""
    return f"; it is cancelled if it has not started by {_moment(facts.job.start_by, facts.now)}"


def _suspected(job: Job) -> str:
    """What blame (rule 15) knows of an unfinished job. A ready one tells more, since it may have to wait by it."""
    if job.suspicion == 0 or job.state is JobState.READY:
        return ""
    return f"; it was lost {_times(job.lost)} with its worker{_company(job.suspicion)}"


def _company(suspicion: int) -> str:
    if suspicion >= GRAVE:
        return ", and is tried alone"
    return ", and is tried beside few others of its kind" if suspicion >= APART else ""


def _scheduled(facts: Facts) -> str:
    job = facts.job
    when = (
        "now, and starts its way at the next sweep" if job.due <= facts.now else _instant(job.due, facts.now)
    )
    if job.tries == 0:
        return f"is scheduled and due {when}"
    error = f"; last error: {error_line(job.error).rstrip('.')}" if job.error else ""
    return f"is to be tried again, after {_count(job.tries, 'attempt')} of {job.retry.attempts}, and due {when}{error}"


def _ready(facts: Facts) -> str:
    if facts.paused:
        return "the queue is paused, so nothing starts from it until it is resumed"
    if facts.serving == 0:
        return "no live worker serves the queue"
    workers = _count(facts.serving, "live worker")
    if facts.knowing == 0:
        return f"{workers} serve{_s(facts.serving)} the queue, but none knows the task {facts.job.task!r}"
    if facts.job.suspicion >= APART:
        return _kept_apart(facts)
    return f"it is about to start; {_count(facts.knowing, 'live worker')} can run it"


def _kept_apart(facts: Facts) -> str:
    """Why a suspect stays ready although workers claim other jobs."""
    job = facts.job
    room = (
        "it is tried alone: it starts when a worker runs no other suspect, behind suspects that came before it"
        if job.suspicion >= GRAVE
        else "a worker runs few suspects at a time: it starts when one has room for it"
    )
    lost = f"it was lost {_times(job.lost)} with its worker and may have ended it, so that"
    return f"{lost} {room}; {_count(facts.knowing, 'live worker')} can run it"


def _waiting(facts: Facts) -> str:
    limit = facts.limit
    if limit is None:
        return "is waiting for a key that has just changed"
    why = _rate(limit, facts) if limit.kind == "rate" else _slots(limit, facts)
    words = f"waits on {limit.key}{_of_tenant(limit)}: {why}"
    if facts.place is not None:
        words += f"; it is {_place(facts.place)} in line"
    if facts.serving == 0:
        words += f"; no live worker serves its queue {facts.job.queue!r}"
    if facts.paused:
        words += f"; its queue {facts.job.queue!r} is paused, too"
    return words


def _slots(limit: LimitStatus, facts: Facts) -> str:
    if limit.max == 0:
        return f"it is closed (a limit of 0{_author(limit, facts.now)})"
    if (throttled := _throttled(limit, facts.now)) is not None:
        return throttled
    if limit.max is None:
        return "it has no limit any more, and the job is offered at the next claim"
    units = _units(facts)
    if units > limit.max:
        most = f"the maximum in force is {limit.max}{_author(limit, facts.now)}"
        return f"it needs {units} units at once, and {most}: it cannot start before that is raised"
    held = f"{limit.held} of {limit.max} held{_author(limit, facts.now)}"
    if facts.holders:
        shown = ", ".join(_holder(holder, facts.now) for holder in facts.holders[:3])
        rest = limit.held - sum(holder.units for holder in facts.holders[:3])
        held += f", by {shown}{f' and {rest} more' if rest > 0 else ''}"
    free = max(limit.max - limit.held, 0)
    if units > 1:
        held = f"it needs {units} units, of which {free} are free; {held}"
    return held if free < units else f"{held}, and {_promised(facts.offered)}"


def _units(facts: Facts) -> int:
    """What the job needs of the key that it waits on; of the caps of tasks and queues always one."""
    return next((use.units for use in facts.job.uses if use.key == facts.job.waiting_on), 1)


def _throttled(limit: LimitStatus, now: int) -> str | None:
    """A key that a service has closed, or that opens again."""
    if limit.opens_at is None:
        return None
    moment = _moment(limit.opens_at, now)
    if limit.opens_at > now:
        return f"a service has throttled it: it is closed until {moment}, and opens bit by bit then"
    return f"a service has throttled it: it opens bit by bit since {moment}"


def _promised(offered: int) -> str:
    """Why a waiter waits although there is room: those before it are ready, and a worker will claim them first."""
    return f"the room is promised to {_count(offered, 'job')} before it that can be claimed now"


def _rate(limit: LimitStatus, facts: Facts) -> str:
    if limit.max == 0:
        return f"it is closed (a rate of 0{_author(limit, facts.now)})"
    if limit.max is None:
        return "it has no rate any more, and the job is offered at the next claim"
    pace = f"{limit.max} per {limit.period / SECOND:g} s{_author(limit, facts.now)}"
    if facts.earliest is None:
        return f"its rate of {pace} never has as many tokens at once as the job costs"
    when = "now" if facts.earliest <= facts.now else _instant(facts.earliest, facts.now)
    units = _units(facts)
    if limit.tokens is not None and (units > 1 or limit.tokens):
        left = _left(limit.tokens)
        return f"it costs {units} of its rate of {pace}, and {left}; they are there {when} at the earliest"
    return f"its rate of {pace} is used up; a token comes {when} at the earliest"


def _left(tokens: int) -> str:
    if tokens < 0:
        return f"{-tokens} more were spent than there were"
    return "1 token is left" if tokens == 1 else f"{tokens or 'no'} tokens are left"


def _author(limit: LimitStatus, now: int) -> str:
    override = limit.override
    if override is None:
        return ""
    author = f", set by {override.by or 'an operator'}"
    if override.until is not None:
        author += f" until {_moment(override.until, now)}"
    return f"{author}: {override.why}" if override.why else author


def _of_tenant(limit: LimitStatus) -> str:
    return f" (tenant {limit.tenant})" if limit.tenant else ""


def _holder(holder: Holder, now: int) -> str:
    if holder.reserved:
        return f"job {holder.job} ({holder.task}), which keeps it while it waits for another key"
    sized = f" with {holder.units} units" if holder.units > 1 else ""
    return f"job {holder.job} ({holder.task}){sized}, running for {_span(now - holder.since)}"


def _running(facts: Facts) -> str:
    job = facts.job
    since = _span(facts.now - (job.started_at or facts.now))
    words = f"is running on worker {job.worker} for {since}, attempt {job.attempt}"
    return f"{words}; it was asked to stop" if job.cancel_requested else words


def _ended(facts: Facts) -> str:
    job = facts.job
    words = f"{'was ' if job.state is JobState.CANCELLED else ''}{job.state.value}"
    if job.ended_at is not None:
        words += f" {_instant(job.ended_at, facts.now)}"
    if job.attempt:
        words += f" after {_count(job.attempt, 'attempt')}"
    return (
        f"{words}: {error_line(job.error).rstrip('.')}"
        if job.error and job.state is not JobState.SUCCEEDED
        else words
    )


def _instant(at: int, now: int) -> str:
    return f"at {_moment(at, now)}"


def _moment(at: int, now: int) -> str:
    clock = from_us(at).isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
    return f"{clock} ({f'in {_span(at - now)}' if at > now else f'{_span(now - at)} ago'})"


def _span(duration: int) -> str:
    return span(max(duration, 0) / SECOND)


def _place(place: int) -> str:
    return "next" if place == 1 else f"number {place}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _s(number: int) -> str:
    return "s" if number == 1 else ""


def error_line(error: str) -> str:
    """The line of an error that says what went wrong: the first, but of a bare traceback the last."""
    lines = error.strip().split("\n")
    return lines[-1 if lines[0].startswith("Traceback") else 0]
