"""The verbs that every store offers. The docstrings are the specification; the conformance suite is its proof.

Each verb is one atomic step in the store and one round trip. Times are microseconds. Every verb takes `now`, which
replaces the store's own clock: tests move time, nothing else passes it. Ids in a result stand in the order in which
they were asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from headgate.clock import SECOND
from headgate.engine.contract.job_records import (
    Enqueued,
    Filter,
    ImportedJob,
    ImportResult,
    NewArguments,
    Verdict,
)
from headgate.engine.contract.limit_records import (
    KeyInUse,
    Limit,
    LimitPlace,
    LimitStatus,
    Override,
    ShareStatus,
    ShareWeight,
)
from headgate.engine.contract.view_records import (
    Facts,
    JobPage,
    KeyStatus,
    QueueStatus,
    Rows,
    Snapshot,
    Totals,
)
from headgate.engine.contract.work_records import (
    HISTORY_MINUTE,
    Beat,
    Done,
    Exchanged,
    Known,
    Lost,
    Rechecked,
    Report,
    Resumed,
    Swept,
    Worker,
    WorkerStatus,
)
from headgate.job import Job, JobState, NewJob

LOOKS = 3000
"""Jobs that a page of jobs looks at: some tens of milliseconds on every store."""
Wake = Callable[[], None]
"""Called from any thread; must return at once."""


class Part(ABC):
    """What one exchange loop of a worker works through: a whole store, or one partition of it.

    Registrations, leases and message numbers belong to one part: what is wrong with one leaves the others alone.
    """

    name: str = ""
    """What the part is called in log lines; empty where the store has one part only."""

    @abstractmethod
    async def register(self, worker: Worker, *, now: int | None = None) -> int:
        """Begin a worker's lease; returns the store's now. What the same id ran before is lost. The number of the
        last message is 0 again."""

    @abstractmethod
    async def heartbeat(self, worker: str, *, done: Sequence[Done] = (), now: int | None = None) -> Beat:
        """Renew the lease. Raises LeaseLost when it has lapsed: what the worker runs is no longer its own.

        `done` is added to the history: one row per minute, queue and task, HISTORY_MOST of them a minute. It is kept
        for a day, and never decides anything. A worker sends it once, so that a beat that was lost leaves a gap and
        none counts twice."""

    @abstractmethod
    async def retire(self, worker: str, *, now: int | None = None) -> None:
        """End the lease; attempts still running under it are released, uncounted. Unknown workers are ignored."""

    @abstractmethod
    async def exchange(
        self,
        worker: str,
        reports: Sequence[Report],
        want: int,
        queues: Sequence[str] | None = None,
        *,
        number: int | None = None,
        suspects: bool = True,
        threads: int | None = None,
        now: int | None = None,
    ) -> Exchanged:
        """Settle what finished, then claim up to `want` jobs, in one step.

        `number` grows with every message of this registration (rule 13). A number that is not larger than the last
        one that took effect raises StaleMessage and changes nothing. Workers always give it; None is not fenced.

        Jobs are claimed in the order priority, tag of their share, due time, arrival: from the queues in the order
        given, or across all of them (None). Jobs of tasks that the worker does not know are set aside: they stay ready,
        in their order, for workers that know them. Refused jobs are parked; one that should have started by now ends.
        Raises LeaseLost, changing nothing, when the worker's lease has lapsed.

        Suspects (rule 15) are claimed only as far as the worker has room for them (blame.py), and where `suspects` is
        False only those of level 1, as if no others stood in line; meanwhile they stay ready, in a line of their own,
        out of the way of other jobs.

        `threads` is how many of the claimed jobs may be of tasks that the worker registered as `threaded`; None is any
        number. Further jobs of such tasks that the claim meets are set aside as well: they stay ready, in their order
        and with what they were offered, for claims that have threads to spare, of this worker or another. Jobs of other
        tasks behind them are claimed meanwhile. To all but claims without threads to spare they are jobs like any
        other: a worker that does not know the task meets them, and sets them aside as unknown.
        """

    @abstractmethod
    async def resume_worker(
        self, worker: str, number: int, known: Sequence[Known], *, now: int | None = None
    ) -> Resumed:
        """After any doubt, in one step: take back what this worker runs according to the store and does not name in
        `known`, uncounted and without blame (a job that was asked to stop ends as cancelled), and remember `number`, so
        that no older message changes anything when it arrives. Renews nothing.

        Raises StaleMessage or LeaseLost, changing nothing, as `exchange` does. Costs what the worker runs.
        """

    @abstractmethod
    async def report_lost(self, workers: Sequence[str], *, now: int | None = None) -> Lost:
        """The processes of these workers are gone, a supervisor saw it: end their leases now, as if they had lapsed.
        Unknown workers are ignored."""

    @abstractmethod
    async def recheck(
        self, after: str | None = None, *, most: int = 100, now: int | None = None
    ) -> Rechecked:
        """Look at the next `most` keys that are held or waited for (in any stable order, beginning behind `after`), and
        mend what cannot be (rule 20): holders whose job neither runs nor reserves, waiters although there is room
        beyond what is offered, rate keys with waiters and no timer; with the first slice also running jobs whose
        worker is not registered, which are lost."""

    @abstractmethod
    async def sweep(self, *, now: int | None = None) -> Swept:
        """What time does: due jobs arrive, those that have not started in time end, rate timers offer, throttled keys
        open, lapsed workers lose their attempts, reservations, overrides and weights run out, old jobs are deleted.
        Each is bounded; several workers may sweep at once."""

    @abstractmethod
    def watch_work(self, wake: Wake, queues: Sequence[str] | None = None) -> Callable[[], None]:
        """Call `wake` whenever a job may have become ready in these queues, a cancel was asked or a due time came
        nearer. Wakes may be spurious, never missing. Returns the function that ends it."""


class Engine(Part):
    """A store with the atomic steps of Headgate. Opened once, used from any event loop and thread, closed once.

    Every verb has a deadline (deadline.py) and raises EngineUnavailable when it passes; whether the verb took effect
    is then not known, and the message says so. A connection that gave no answer in time is dropped.
    """

    cheap_steps = False
    """Whether a step costs little beyond its jobs: no network, no disk to wait for. Workers then make more of them."""

    def parts(self) -> Sequence[Part]:
        """What a worker runs an exchange loop for. Together the parts are the whole store."""
        return (self,)

    @abstractmethod
    async def open(self) -> None:
        """Connect, check that the store is one of ours and of a version we know, create it if it is empty."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; harmless when called twice."""

    @abstractmethod
    async def migrate(self) -> tuple[int, int]:
        """Bring the store to this code's version; returns the versions before and after. Safe when run twice."""

    @abstractmethod
    async def clock(self) -> int:
        """The store's now."""

    @abstractmethod
    async def enqueue(
        self, jobs: Sequence[NewJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[Enqueued]:
        """Store all of the jobs or none; `limits` are declared in the same step.

        A due job arrives: ready if each of its keys has room beyond what is offered already in its queue, else
        parked on the first that has not (rule 8). A later one is scheduled and holds nothing (rule 9).

        What becomes of a newcomer for which there is no room is for its limit to say (rule 19): it may end at once, as
        cancelled with the reason as its error, others may leave for it, or BacklogFull is raised. A job with a share is
        tagged (rule 17). A number that a job brings for a key is in force from now on (rule 18).

        An id that exists raises JobExists. The unique key of an unfinished job of the same tenant, or of one that keeps
        it for a time after its start, returns that job, raises JobExists, replaces it (a scheduled, ready or waiting
        one is cancelled) or updates it (one that has not started takes over arguments, keys, metadata, headers and due
        time); one that runs or has ended raises there. A use of an undeclared limit raises ConfigError.
        """

    @abstractmethod
    async def import_jobs(
        self, records: Sequence[ImportedJob], *, limits: Sequence[Limit] = (), now: int | None = None
    ) -> list[ImportResult]:
        """Take over jobs with their history; each record succeeds or is refused alone."""

    @abstractmethod
    async def cancel(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        """Scheduled, ready and waiting jobs end at once; running ones are asked to. Ended ones refuse."""

    @abstractmethod
    async def restart(
        self, ids: Sequence[str], *, arguments: NewArguments | None = None, now: int | None = None
    ) -> list[Verdict]:
        """Failed and cancelled jobs arrive anew, due now, with fresh retries; attempt numbers go on. `arguments`
        replace those of the jobs, and their keys; a use of an undeclared limit raises ConfigError."""

    @abstractmethod
    async def expedite(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        """Scheduled jobs become due now."""

    @abstractmethod
    async def delete(self, ids: Sequence[str], *, now: int | None = None) -> list[Verdict]:
        """Remove ended jobs; the verdict's state is the one they had."""

    @abstractmethod
    async def declare(self, limits: Sequence[Limit], *, now: int | None = None) -> None:
        """Write the declared values that differ (newest wins) and offer waiters where there is room now.

        A name that is declared as another kind raises ConfigError, and nothing is written: jobs that name the old kind
        would no longer be limited.
        """

    @abstractmethod
    async def override(self, override: Override, *, now: int | None = None) -> None:
        """Put an operator's value in force at once. The name must be declared, or be a `task:` or `queue:` cap."""

    @abstractmethod
    async def clear_override(
        self, name: str, value: str | None = None, tenant: str | None = None, *, now: int | None = None
    ) -> bool:
        """Take an override back, acting at once; False if there was none."""

    @abstractmethod
    async def compute(self, key: str, max: int, *, now: int | None = None) -> None:
        """Store the number computed for a key of a floating limit, acting at once."""

    @abstractmethod
    async def learn(
        self, key: str, max: int, *, seen: int | None, reason: str, now: int | None = None
    ) -> bool:
        """Store the number learnt for a key of an adaptive limit, and why, acting at once; only if `seen` is the number
        in force now, overrides aside: of several workers that learn from the same trouble one is heard. False, changing
        nothing, where it is not."""

    @abstractmethod
    async def declare_shares(self, weights: Sequence[ShareWeight], *, now: int | None = None) -> None:
        """Write the weights of fair shares that code declares and that differ; as `set_share` for what waits."""

    @abstractmethod
    async def set_share(self, weight: ShareWeight, *, now: int | None = None) -> None:
        """Put an operator's weight for a share in force: at once for newcomers, and for what waits by tagging it anew,
        a first slice in this step and the rest in sweeps."""

    @abstractmethod
    async def clear_share(self, share: str, *, now: int | None = None) -> bool:
        """Take an operator's weight back, acting likewise; False if there was none."""

    @abstractmethod
    async def shares(self, *, after: str | None = None, limit: int = 1000) -> list[ShareStatus]:
        """The shares that have ready or waiting jobs, or a weight, in the order of their names; `after` continues."""

    @abstractmethod
    async def keys_in_use(
        self,
        name: str,
        *,
        computed_before: int | None = None,
        after: str | None = None,
        limit: int = 1000,
        now: int | None = None,
    ) -> list[KeyInUse]:
        """The keys of a limit that are held or waited for, in the order of their idents; `after` (an ident) continues.
        With `computed_before` only those whose number was computed before that time, or never."""

    @abstractmethod
    async def pause(self, queue: str, *, now: int | None = None) -> bool:
        """Stop claims from a queue; what runs goes on. False if it was paused already."""

    @abstractmethod
    async def resume(self, queue: str, *, now: int | None = None) -> bool:
        """Allow claims again; False if it was not paused."""

    @abstractmethod
    async def tick(
        self, name: str, seen: int | None, at: int, jobs: Sequence[NewJob], *, now: int | None = None
    ) -> bool:
        """Move a periodic task's last tick from `seen` to `at` and enqueue its jobs (ids that exist are passed over).

        False, changing nothing, when the last tick is not `seen`: another worker did it. Also while it is paused.
        """

    @abstractmethod
    async def ticks(self, names: Sequence[str]) -> dict[str, int]:
        """The last tick of each periodic task that has one."""

    @abstractmethod
    async def pause_schedule(self, name: str, *, now: int | None = None) -> bool:
        """Let a periodic task tick no more; False if it was paused already."""

    @abstractmethod
    async def resume_schedule(self, name: str, *, now: int | None = None) -> bool:
        """Let it tick again; False if it was not paused. Its last tick becomes now: what fell into the pause is passed
        over."""

    @abstractmethod
    async def paused_schedules(self) -> frozenset[str]:
        """The periodic tasks that are paused."""

    @abstractmethod
    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """The jobs with these ids, with their history."""

    @abstractmethod
    async def states(self, ids: Sequence[str]) -> list[JobState | None]:
        """Only their states: what a waiter for results asks."""

    @abstractmethod
    async def find(self, filter: Filter, *, limit: int = 100, after: str | None = None) -> list[Job]:
        """Jobs that match, newest first; `after` (an id of the previous page) continues. History is left out."""

    async def find_page(
        self, filter: Filter, *, limit: int = 100, after: str | None = None, looks: int = LOOKS
    ) -> JobPage:
        """The same, bounded by what is looked at instead of by what is found: about `looks` jobs. So a page may hold
        fewer than `limit`, or none, and still have a rest."""
        found = await self.find(filter, limit=limit, after=after)
        return JobPage(tuple(found), found[-1].id if len(found) == limit else None)

    @abstractmethod
    async def count(self, filter: Filter) -> int:
        """How many match."""

    @abstractmethod
    async def limits(
        self,
        name: str | None = None,
        *,
        after: LimitPlace | None = None,
        limit: int | None = None,
        now: int | None = None,
    ) -> list[LimitStatus]:
        """Each declared limit, followed by its keys that are held, waited for, overridden or computed: in the order
        name, key, tenant. `limit` ends the page, `after` (the place of the previous page's last record) continues."""

    @abstractmethod
    async def queues(self, *, most: int | None = None) -> list[QueueStatus]:
        """Every queue that has unfinished jobs or is paused. With `most` a store may stop counting the jobs of a state
        once it has found so many."""

    @abstractmethod
    async def totals(self, *, most: int | None = None) -> Totals:
        """How many jobs there are in each state; `most` as above. The store's own jobs (INTERNAL_QUEUE) count."""

    @abstractmethod
    async def tightest(self, *, limit: int = 10, now: int | None = None) -> list[LimitStatus]:
        """The keys that most jobs wait on, most first; keys that nothing waits on are left out. A store may look at the
        first 10,000 keys, or 100,000 waiting jobs, only."""

    @abstractmethod
    async def keys(
        self, idents: Sequence[str], *, holders: int = 10, waiters: int = 0, now: int | None = None
    ) -> list[KeyStatus | None]:
        """How these keys stand, with the first of their holders (longest first) and of their waiters (in the order
        priority, due time, arrival, across queues); None for a key of a limit that is neither declared nor, as the cap
        of a task or queue may be, overridden. A store may stop counting what holds or waits as in a page of limits."""

    @abstractmethod
    async def history(
        self,
        since: int,
        *,
        step: int = HISTORY_MINUTE,
        queue: str | None = None,
        task: str | None = None,
        each: bool = False,
        now: int | None = None,
    ) -> list[Done]:
        """What was done in the minutes that begin at `since` or later, summed by spans of `step` that begin at its
        multiples, in the order of time; with `each` apart by queue and task, else with empty names."""

    @abstractmethod
    async def select(self, sql: str, *, limit: int = 1000, timeout: int = 10 * SECOND) -> Rows:
        """Ask in SQL, reading only, of the tables that `tables.py` describes, which are the same on every store. What
        is no such question, or changes anything, raises ConfigError with the store's own words."""

    @abstractmethod
    async def workers(self, *, now: int | None = None) -> list[WorkerStatus]:
        """The registered workers."""

    @abstractmethod
    async def explain(self, id: str, *, now: int | None = None) -> Facts | None:
        """The facts about one job; None if it is unknown."""

    @abstractmethod
    async def snapshot(self, *, now: int | None = None) -> Snapshot:
        """All unfinished jobs, holders, offers, timers: for the audit and the comparison of engines."""

    @abstractmethod
    def watch_ended(self, wake: Wake) -> Callable[[], None]:
        """Call `wake` whenever a job may have ended or reported progress. Spurious wakes as above."""


@runtime_checkable
class EnqueuesWithin(Protocol):
    """An engine that can also store jobs inside a transaction of the caller's."""

    async def enqueue_within(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """As `enqueue`, on the caller's connection: invisible until its commit, gone with its rollback."""
        ...

    def is_awaited(self, connection: Any) -> bool:
        """Whether statements on it are awaited. Raises ConfigError for what is no connection that can be used."""
        ...

    async def check_transaction(self, connection: Any) -> None:
        """Raise ConfigError unless jobs that are stored on it now are part of a transaction, in this very store."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """An engine that can tell whether there is a store without founding one."""

    async def version(self) -> int:
        """The version of the store; 0 if there is none yet."""
        ...

    async def close(self) -> None:
        """As every engine."""
        ...
