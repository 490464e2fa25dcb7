"""The rules of admission (docs/reference/limits.md) in plain Python. Read this page first.

A store keeps a *ledger*: which jobs hold a key, wait on it or were offered it, and what was spent of it. Everything
that can start, stop or move a job goes through one `Admission`, which lives for one atomic step of the store:

    arrive     a job became due: ready if all its keys have room, else parked        rules 8, 9
               (or what its limit says of those that find no room: full.py)          rule 19
    claim      a worker wants a ready job: all its keys at once, or parked           rules 1, 2, 3, 4, 7
    give_back  an attempt ended, or a pending job left: nothing of it stays behind   rules 1, 5
    offer      at the end of the step: waiters of every touched key, in order        rule 5

`claim` is the one walker, `give_back` the one release (rule 10). A key is *touched* when it may have gained room or
lost an offer; touching too often costs a look, forgetting to touch would lose a wake-up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from headgate.engine.rules.full import Crowd, Full
from headgate.engine.rules.turned_away import EXPIRED
from headgate.keys import Key, Use
from headgate.rates import Meter, Pace, Spending

UNLIMITED = 1 << 60
OFFER_MOST = 1000
"""Offers per key, queue and step. A lifted limit with a million waiters is offered in slices: each claim of an
offered job looks at its key again, so the next slice follows as the last one is claimed."""
LOOK_MORE = 256
"""How many jobs beyond those it wants one claim looks at, so that refused ones cannot make it long (rule 4)."""


class Gate(msgspec.Struct, frozen=True):
    """A key that was throttled: closed until `opens_at`, then one slot more every `step`."""

    opens_at: int
    step: int

    def max(self, most: int | None, now: int) -> int | None:
        """The number in force at `now` where it would be `most` without the gate."""
        if now < self.opens_at:
            return 0
        opened = 1 + (now - self.opens_at) // self.step
        return opened if most is None or opened < most else most

    def next_at(self, now: int) -> int:
        """When it will next open further."""
        if now < self.opens_at:
            return self.opens_at
        return now + self.step - (now - self.opens_at) % self.step

    def open_at(self, most: int | None) -> int:
        """From when on it is open wide; a limit without number after GATE_STEPS slots."""
        return self.opens_at + self.step * max((GATE_STEPS if most is None else most) - 1, 0)


GATE_STEPS = 10
"""In how many steps a throttled key without a number of its own opens again."""


class Cap(msgspec.Struct, frozen=True):
    """The number of a concurrency limit in force. None does not limit, 0 closes. A job of a `sized` one may take
    several slots."""

    max: int | None
    sized: bool = False
    gate: Gate | None = None

    def at(self, now: int) -> int | None:
        """The number at an instant."""
        if self.gate is None or now >= self.gate.open_at(self.max):
            return self.max
        return self.gate.max(self.max, now)

    def opens_at(self, now: int) -> int | None:
        """When a throttled key opens further, until it is open wide."""
        if self.gate is None or now >= self.gate.open_at(self.max):
            return None
        return self.gate.next_at(now)


Rule = Cap | Pace


def fewest_refusals(patience: int) -> int:
    """How often a job must have been refused before it can hold anything while it waits."""
    return min(patience, 1)


class Pending(Protocol):
    """A job as admission sees it. `refusals` is None until it first parks; `offered_by` is the key whose room it
    was promised when it became ready; `start_by` is until when it must have started, if it has not."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def start_by(self) -> int | None: ...
    @property
    def waiting_on(self) -> str | None: ...
    @property
    def offered_by(self) -> str | None: ...
    @property
    def refusals(self) -> int | None: ...
    @property
    def units(self) -> int:
        """What it needs of the key it waits on or was offered by."""
        ...


J = TypeVar("J", bound=Pending)
J_co = TypeVar("J_co", bound=Pending, covariant=True)


class Ledger(Crowd[J], Protocol[J]):
    """What a store must answer and record, within one atomic step."""

    def uses(self, job: J) -> Sequence[Use]:
        """The keys of a job in canonical order (rule 6), caps of its task and queue included."""
        ...

    def rule(self, key: str, /) -> Rule:
        """The numbers in force for a key."""
        ...

    def held(self, key: str, /) -> int:
        """The sum of the units of a concurrency key's holder records."""
        ...

    def holds(self, key: str, job: J) -> int:
        """How many units of the key the job holds by a reservation."""
        ...

    def meter(self, key: str, /) -> Meter:
        """What has been spent of a rate key."""
        ...

    def offered(self, key: str, queue: str) -> int:
        """Units of the key that are promised to ready jobs of the queue."""
        ...

    def has_waiters(self, key: str, queue: str) -> bool:
        """Whether jobs of the queue wait on the key."""
        ...

    def expect(self, keys: Collection[str]) -> None:
        """These keys are about to be offered: a store may read what it needs for all of them at once."""
        ...

    def queues_waiting(self, key: str) -> Sequence[str]:
        """The queues that have waiters on a key that was announced by `expect`."""
        ...

    def waiters(self, key: str, queue: str, most: int) -> Sequence[J]:
        """The first waiters of a queue on a key, in the order priority, tag, due time, arrival (rule 16)."""
        ...

    def take(self, key: str, job: J, units: int, *, reserved: bool) -> None:
        """Record the job as a holder of a concurrency key (turning its reservation, if any, into slots)."""
        ...

    def spend(self, key: str, pace: Pace, units: int, job: J) -> None:
        """Take tokens of a rate key; of an estimated one the job remembers what it spent."""
        ...

    def correct(self, key: str, pace: Pace, spent: Spending, units: int) -> None:
        """What a start spent of a rate key was really so many units."""
        ...

    def close(self, key: str, pace: Pace, until: int) -> None:
        """A rate key has no tokens before this time."""
        ...

    def drop(self, jobs: Sequence[J]) -> Iterable[str]:
        """Delete all holder records of these jobs; returns the keys that were let go, and maybe others of theirs."""
        ...

    def drop_except(self, job: J, keep: Sequence[str]) -> Iterable[str]:
        """Delete a pending job's reservations except those of `keep`; returns the keys that were let go."""
        ...

    def start(self, job: J) -> None:
        """The job runs: a new attempt of the claiming worker."""
        ...

    def make_ready(self, job: J, offered_by: str | None, units: int) -> None:
        """The job may be claimed. Reservations it holds now run out after the reservation's time to live."""
        ...

    def park(self, job: J, on: Use, refusals: int) -> None:
        """The job waits on a key."""
        ...

    def set_aside(self, job: J) -> None:
        """The job stays ready, but out of the way of workers that do not know its task; it is no longer offered."""
        ...

    def keep_for_thread(self, job: J) -> None:
        """The job stays ready, in its order and offered as it was, but out of the way of claims that have no thread for
        it. One that was set aside before stays where it is."""
        ...

    def arm(self, key: str, at: int | None) -> None:
        """Set the one timer of a rate key, or clear it."""
        ...


class Ready(Protocol[J_co]):
    """What a claim may start next."""

    def __call__(self, most: int, without: Collection[str], /) -> Sequence[J_co]:
        """The next ready jobs in the order of a claim. Of the tasks in `without`, for which there is no thread, none
        that was set aside."""
        ...


class Admission(Generic[J]):
    """Decides over one ledger at one instant. `offer()` must be the last thing that happens in the step."""

    def __init__(self, ledger: Ledger[J], now: int, patience: int) -> None:
        self.ledger = ledger
        self.now = now
        self.patience = patience
        self.reserving = fewest_refusals(patience)
        self.full: Full[J] = Full(ledger)
        self.touched: dict[str, None] = {}
        self.unknown: dict[str, None] = {}
        self.refused: Counter[str] = Counter()

    def free(self, key: str) -> int:
        """Slots or whole tokens that are left. Below zero when a limit was lowered under what runs (rule 11)."""
        rule = self.ledger.rule(key)
        if isinstance(rule, Cap):
            most = rule.max if rule.gate is None else rule.at(self.now)
            return UNLIMITED if most is None else most - self.ledger.held(key)
        if rule.limit is None:
            return UNLIMITED
        return self.ledger.meter(key).free(rule, self.now) if rule.limit else 0

    def touch(self, key: str | None) -> None:
        """Look at this key's waiters when the step ends."""
        if key is not None:
            self.touched[key] = None

    # ── a job becomes due ────────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, job: J, *, entering: bool = False, returning: bool = False) -> None:
        """Ready if every key has room beyond what is promised already in this queue; else parked on the first without.

        A newcomer that becomes ready counts as offered by its tightest key, so that a thousand newcomers on an idle
        key of max 1 make one ready job and 999 waiters, and none of them stands in the way of unrelated work.

        `entering` is a job that is being enqueued, and can still be refused; `returning` one that comes back uncounted.
        """
        if not returning and not self.full.may_enter(job, entering=entering):
            return
        tightest, least = None, UNLIMITED + 1
        for use in self.ledger.uses(job):
            room = self.free(use.key) - self.ledger.offered(use.key, job.queue)
            if room < use.units or self._is_waited_for(use.key, job.queue):
                if returning or self.full.may_wait(job, use, entering=entering):
                    self.ledger.park(job, use, 0)
                    self._touch_line(use.key)
                return
            if room < least:
                tightest, least = use, room
        self.ledger.make_ready(job, tightest and tightest.key, tightest.units if tightest else 0)

    def _is_waited_for(self, key: str, queue: str) -> bool:
        """Whether others stand in line although there is room: tokens came with time, or the head needs more of them,
        or a slot came back in this very step. At any other moment a key with room has no waiters."""
        return (self._may_line_up(key) or key in self.touched) and self.ledger.has_waiters(key, queue)

    def _may_line_up(self, key: str) -> bool:
        """Whether jobs may wait on the key although some of it is free: until its head finds enough, or for time."""
        rule = self.ledger.rule(key)
        return isinstance(rule, Pace) or rule.sized or rule.gate is not None

    # ── a worker wants it ────────────────────────────────────────────────────────────────────────────────────────

    def claim_many(
        self,
        want: int,
        known: Collection[str],
        ready: Ready[J],
        threaded: Collection[str] = (),
        threads: int | None = None,
    ) -> bool:
        """Claim up to `want` jobs of the `known` tasks, in the order in which `ready` gives the next, but no more than
        `threads` of the `threaded` ones among these.

        Goes in rounds, since refused jobs may let others be offered. Returns whether it stopped because it had
        looked at enough jobs, so that more may be found by asking again.
        """
        looks = want + LOOK_MORE
        spare = UNLIMITED if threads is None else threads
        while want > 0 and looks > 0:
            asked = min(want, looks)
            found = ready(asked, () if spare > 0 else threaded)
            looks -= len(found)
            for job in found:
                if job.task not in known:
                    self._set_aside(job)
                elif spare <= 0 and job.task in threaded:
                    self.ledger.keep_for_thread(job)
                elif self.claim(job):
                    want -= 1
                    spare -= job.task in threaded
            if self.offer() == 0 and len(found) < asked:
                return False
        return want > 0

    def _set_aside(self, job: J) -> None:
        self.give_back([job])
        self.ledger.set_aside(job)
        self.unknown[job.task] = None

    def parked(self) -> tuple[tuple[str, int], ...]:
        """The limits that refused what was to be claimed, in the order of their names, and how often each did."""
        names: Counter[str] = Counter()
        for key, count in self.refused.items():
            names[Key.of(key).name] += count
        return tuple(sorted(names.items()))

    def claim(self, job: J) -> bool:
        """Start the job if all of its keys admit it now; else park it on the first that does not. Too late, it ends."""
        if job.start_by is not None and job.start_by <= self.now:
            self.full.leave(job, EXPIRED)
            return False
        uses = self.ledger.uses(job)
        for use in uses:
            if not self._admits(job, use):
                self._refuse(job, use, uses)
                return False
        for use in uses:
            self._take(job, use)
        if job.refusals is not None and job.refusals >= self.reserving:
            self._drop_except(job, [use.key for use in uses])
        if job.offered_by is not None:
            self._use_offer(job.offered_by)
        self.ledger.start(job)
        return True

    def _admits(self, job: J, use: Use) -> bool:
        free = self.free(use.key)
        if free < use.units:
            return free + self.ledger.holds(use.key, job) >= use.units
        if use.key == job.offered_by or not self._may_line_up(use.key):
            return True
        # Do others stand in line for more? One that needs much would starve if each passer-by took what comes.
        return not self.ledger.has_waiters(use.key, job.queue) or self.ledger.holds(use.key, job) > 0

    def _take(self, job: J, use: Use) -> None:
        rule = self.ledger.rule(use.key)
        if isinstance(rule, Cap):
            self.ledger.take(use.key, job, use.units, reserved=False)
        elif rule.limit is not None:
            self.ledger.spend(use.key, rule, use.units, job)

    def _use_offer(self, key: str) -> None:
        """An offer that was used leaves room as it was, so waiters need no look: unless they were offered in slices,
        or a rate's timer waited for this offer to be used."""
        rule = self.ledger.rule(key)
        if isinstance(rule, Pace) or rule.max is None or rule.max > OFFER_MOST:
            self.touched[key] = None

    def _refuse(self, job: J, refused: Use, uses: Sequence[Use]) -> None:
        passed_over = job.refusals is not None and job.offered_by not in (None, refused.key)
        refusals = (job.refusals or 0) + passed_over
        self.refused[refused.key] += 1
        kept = self._reservable(refused, uses) if refusals >= self.patience else ()
        for use in kept:
            if not self.ledger.holds(use.key, job):
                self.ledger.take(use.key, job, use.units, reserved=True)
        self._drop_except(job, [use.key for use in kept])
        self.touch(job.offered_by)
        self._touch_line(refused.key)
        self.ledger.park(job, refused, refusals)

    def _drop_except(self, job: J, kept: Sequence[str]) -> None:
        """Reservations end that the job needs no more; at a claim those of caps that were withdrawn meanwhile."""
        for key in self.ledger.drop_except(job, kept):
            self.touch(key)

    def _reservable(self, refused: Use, uses: Sequence[Use]) -> Sequence[Use]:
        """The keys before the refusing one (rule 7). All of them just admitted the job; none is a rate key, since
        these come last. Never for a wait for time."""
        if self.is_timed(refused.key):
            return ()
        return uses[: uses.index(refused)]

    # ── it ends, or leaves ───────────────────────────────────────────────────────────────────────────────────────

    def give_back(self, jobs: Sequence[J]) -> None:
        """Let go of all that jobs hold, were promised, or stand in line for. Called before their states change."""
        self.touched.update(dict.fromkeys(self.ledger.drop(jobs)))
        for job in jobs:
            if job.offered_by is not None:
                self.touch(job.offered_by)
            if job.waiting_on is not None:
                self._touch_line(job.waiting_on)

    # ── waiters of touched keys ──────────────────────────────────────────────────────────────────────────────────

    def offer(self) -> int:
        """Offer every touched key's room to its waiters; returns how many became ready."""
        if not self.touched:
            return 0
        touched, self.touched = self.touched, {}
        self.ledger.expect(touched)
        count = 0
        for key in touched:
            queues = self.ledger.queues_waiting(key)
            for queue in queues:
                count += self._offer(key, queue)
            if self.is_timed(key):
                self.ledger.arm(key, self.timer_of(key, queues))
        return count

    def _offer(self, key: str, queue: str) -> int:
        room = self.free(key) - self.ledger.offered(key, queue)
        if room <= 0:
            return 0
        count = 0
        for job in self.ledger.waiters(key, queue, min(room, OFFER_MOST)):
            if job.units > room:
                break
            room -= job.units
            self.ledger.make_ready(job, key, job.units)
            count += 1
        return count

    def has_room_for(self, head: J, key: str, queue: str) -> bool:
        """Whether the first waiter of a queue could be offered this key now: between steps a lost wake-up (rule 20),
        unless it is a rate whose timer is about to ring."""
        offered = self.ledger.offered(key, queue)
        return offered < OFFER_MOST and self.free(key) - offered >= head.units

    def is_timed(self, key: str) -> bool:
        """Whether time gives the key room: a rate, or a throttled key that opens again."""
        rule = self.ledger.rule(key)
        return isinstance(rule, Pace) or rule.gate is not None

    def timer_of(self, key: str, queues: Collection[str]) -> int | None:
        """One timer per timed key: when the first of its queues' heads will find its tokens, or a throttled key opens
        further; None if never."""
        rule = self.ledger.rule(key)
        if isinstance(rule, Cap):
            return rule.opens_at(self.now) if queues else None
        times = [at for queue in queues if (at := self._head_at(key, queue, rule)) is not None]
        return min(times, default=None)

    def _head_at(self, key: str, queue: str, rule: Pace) -> int | None:
        heads = self.ledger.waiters(key, queue, 1)
        if not heads:
            return None
        if rule.limit is None:
            return self.now
        needed = self.ledger.offered(key, queue) + heads[0].units
        return self.ledger.meter(key).when(rule, needed, self.now)

    def _touch_line(self, key: str) -> None:
        """A line has changed whose jobs may wait although some of its key is free: the next head may need less."""
        if self._may_line_up(key):
            self.touch(key)
