"""Every state that a small world can get into, breadth first, on the memory engine.

A world has a few jobs, keys and queues, one worker whose messages may be lost, late or doubled and whose answers may
be lost, and an operator who changes a limit, cancels and restarts. In each state the audit is clean, no key has more
running than its number, and whenever the worker is in no doubt the store thinks that it runs exactly what it runs or
has yet to report. `HEADGATE_WORLD_STATES` goes on until so many states have been seen.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Failed, Limit, Override, Report, Settings, Succeeded, Worker
from headgate.engine.memory import MemoryEngine
from headgate.engine.rules.audit import audit
from headgate.engine.rules.stored import Stored
from headgate.engine.rules.transitions import Transitions
from headgate.errors import LeaseLost, StaleMessage
from headgate.job import JobState, NewJob
from headgate.keys import Key, canonical
from headgate.retry import RetryPolicy
from tests.support.world import START

Pair = tuple[str, int]
LEASE = 10**6 * SECOND
SETTINGS = Settings(patience=1, reservation_ttl=10**6 * SECOND)


class Message(NamedTuple):
    """What a worker sends: an exchange with its reports, or (`known` is not None) that it is in doubt."""

    worker: str
    number: int
    reports: tuple[tuple[str, int, str], ...] = ()
    known: frozenset[Pair] | None = None


class Mind(NamedTuple):
    """What the worker knows. `outbox` are its reports that no answer has confirmed."""

    worker: str = "w"
    number: int = 0
    has: frozenset[Pair] = frozenset()
    outbox: frozenset[tuple[str, int, str]] = frozenset()
    pending: Message | None = None
    doubt: bool = False
    flight: frozenset[Message] = frozenset()


class Plan(NamedTuple):
    """A small world: its jobs with their keys and queues, the numbers of its keys, and what may happen in it."""

    jobs: tuple[tuple[str, tuple[str, ...], str], ...]
    maxima: tuple[tuple[str, int], ...]
    messages: int = 3
    attempts: int = 2
    operator: bool = True
    other: bool = False


PLANS = {
    "two keys, one job needs both": Plan(
        (("a", ("A",), "x"), ("b", ("B",), "x"), ("ab", ("A", "B"), "x")), (("A", 1), ("B", 1))
    ),
    "two queues on one key": Plan((("a", ("A",), "x"), ("b", ("A",), "y"), ("c", ("A",), "x")), (("A", 1),)),
    "two workers": Plan((("a", ("A",), "x"), ("b", ("A",), "x")), (("A", 1),), 3, 2, False, True),
}


class World:
    """One state: the store, copied for every move from it, and the worker's mind."""

    def __init__(self, engine: MemoryEngine, mind: Mind, changes: int, crashes: int) -> None:
        self.engine = engine
        self.mind = mind
        self.changes = changes
        self.crashes = crashes
        self.came_from: tuple[World, str] | None = None
        self.stored: bytes | None = None

    def copy(self) -> World:
        """With a store of its own, to be changed."""
        engine = MemoryEngine(SETTINGS)
        if self.stored is None:
            self.stored = pickle.dumps(self.engine._store, pickle.HIGHEST_PROTOCOL)
        engine._store = pickle.loads(self.stored)
        return World(engine, self.mind, self.changes, self.crashes)

    def think(self, mind: Mind) -> World:
        """Only the worker's mind is another one."""
        return World(self.engine, mind, self.changes, self.crashes)

    def key(self) -> Any:
        """What tells one state from another."""
        store = self.engine._store
        jobs = tuple(
            (
                job.id, job.state, job.waiting_on, job.offered_by, job.refusals, job.worker, job.attempt, job.tries,
                job.cancel_requested, job.suspicion, job.lost, job.set_aside,
            )
            for job in store.jobs.values()
        )  # fmt: skip
        holders = frozenset(
            (key, id, holding.reserved) for key, held in store.holders.items() for id, holding in held.items()
        )
        numbers = tuple((name, entry.number) for name, entry in sorted(store.workers.items()))
        rules = frozenset((scope, override.max) for scope, override in store.book.overrides.items())
        return jobs, holders, numbers, rules, self.mind, self.changes, self.crashes

    def history(self) -> str:
        """How the world came to be so."""
        steps: list[str] = []
        world = self
        while world.came_from is not None:
            world, what = world.came_from
            steps.append(what)
        return " ← ".join(steps)


def run(verb: Any) -> Any:
    """The memory engine's verbs never wait."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a verb of the memory engine waited")


def register(engine: MemoryEngine, worker: str) -> None:
    run(engine.register(Worker(worker, frozenset({"t"}), None, LEASE, concurrency=20), now=START))


def first(plan: Plan) -> World:
    engine = MemoryEngine(SETTINGS)
    limits = [Limit(name, "concurrency", most) for name, most in plan.maxima]
    run(engine.declare(limits, now=START))
    for worker in ("w", "other") if plan.other else ("w",):
        register(engine, worker)
    retry = RetryPolicy(attempts=plan.attempts, delay=0, losses=2)
    for id, names, queue in plan.jobs:
        uses = canonical((Key(name), 1) for name in names)
        run(engine.enqueue([NewJob(id, "t", queue, uses=uses, retry=retry)], now=START))
    return World(engine, Mind(), 0, 0)


def moves(plan: Plan, world: World) -> Iterator[tuple[str, World]]:
    yield from _worker_moves(plan, world)
    yield from _deliveries(plan, world)
    yield from _steering(plan, world)


def _worker_moves(plan: Plan, world: World) -> Iterator[tuple[str, World]]:
    mind = world.mind
    for pair in mind.has:
        for outcome in ("ok", "retry"):
            outbox = mind.outbox | {(*pair, outcome)}
            yield f"{pair} ends: {outcome}", world.think(mind._replace(has=mind.has - {pair}, outbox=outbox))
    if mind.pending is None and mind.number < plan.messages:
        known = mind.has | {report[:2] for report in mind.outbox} if mind.doubt else None
        reports = () if mind.doubt else tuple(sorted(mind.outbox))
        message = Message(mind.worker, mind.number + 1, reports, known)
        flight = mind.flight | {message}
        after = mind._replace(number=message.number, pending=message, flight=flight)
        yield f"sends {message}", world.think(after)
    if mind.pending is not None:
        yield "gives up waiting", world.think(mind._replace(pending=None, doubt=True))


def _deliveries(plan: Plan, world: World) -> Iterator[tuple[str, World]]:
    """Each message on its way arrives: once, or once more later; its answer is heard or lost; or it never arrives."""
    for message in world.mind.flight:
        gone = world.mind._replace(flight=world.mind.flight - {message})
        after = world.copy()
        answer = _deliver(plan, after, message)
        for mind in (gone, world.mind):
            yield f"{message} arrives, its answer is lost", after.think(mind)
            if answer is not None and world.mind.pending == message:
                yield f"{message} is answered", after.think(_hear(mind, message, answer))
        yield f"{message} is lost", world.think(gone)


def _deliver(plan: Plan, world: World, message: Message) -> frozenset[Pair] | None:
    try:
        if message.known is not None:
            known = sorted(message.known)
            verb = world.engine.resume_worker(message.worker, message.number, known, now=START)
            return frozenset(run(verb).alive)
        reports = [_report(plan, *report) for report in message.reports]
        verb = world.engine.exchange(message.worker, reports, 1, number=message.number, now=START)
        answer = run(verb)
        return frozenset((attempt.job, attempt.number) for attempt in answer.attempts)
    except (StaleMessage, LeaseLost):
        return None


def _report(plan: Plan, job: str, attempt: int, outcome: str) -> Report:
    if outcome == "ok":
        return Succeeded(job, attempt)
    return Failed(job, attempt, "boom", 0 if attempt < plan.attempts else None)


def _hear(mind: Mind, message: Message, answer: frozenset[Pair]) -> Mind:
    if message.known is None:
        outbox = mind.outbox - frozenset(message.reports)
        return mind._replace(has=mind.has | answer, outbox=outbox, pending=None, doubt=False)
    outbox = frozenset(report for report in mind.outbox if report[:2] in answer)
    return mind._replace(has=mind.has & answer, outbox=outbox, pending=None, doubt=False)


def _steering(plan: Plan, world: World) -> Iterator[tuple[str, World]]:
    if plan.operator and world.changes < 1:
        for verb, change in _changes(plan):
            after = world.copy()
            after.changes += 1
            change(after.engine)
            yield verb, after
    if world.crashes < 1:
        after = world.copy()
        after.crashes += 1
        run(after.engine.report_lost([world.mind.worker], now=START))
        register(after.engine, "heir")
        after.mind = Mind("heir", flight=world.mind.flight)
        yield "the worker dies, and another one comes while its messages are still on their way", after
    if plan.other:
        yield from _other(world)


def _changes(plan: Plan) -> Iterator[tuple[str, Any]]:
    for id, _, _ in plan.jobs:
        yield f"cancel {id}", lambda engine, id=id: run(engine.cancel([id], now=START))
        yield f"restart {id}", lambda engine, id=id: run(engine.restart([id], now=START))
    for name, _ in plan.maxima:
        for most in (0, 2):
            override = Override(name, most, at=START)
            yield (
                f"{name} is set to {most}",
                lambda engine, override=override: run(engine.override(override, now=START)),
            )


def _other(world: World) -> Iterator[tuple[str, World]]:
    """Another worker, on which nothing is ever lost."""
    after = world.copy()
    running = list(after.engine._store.running.get("other", {}).values())
    reports = [Succeeded(job.id, job.attempt) for job in running]
    run(after.engine.exchange("other", reports, 0 if running else 1, now=START))
    yield "the other worker exchanges", after


def check(plan: Plan, world: World) -> None:
    """What holds in every state."""
    snapshot = run(world.engine.snapshot(now=START))
    assert audit(snapshot) == [], world.history()
    overridden = {scope[0]: override.max for scope, override in world.engine._store.book.overrides.items()}
    for name, most in plan.maxima:
        running = len(snapshot.holders.get(Key(name).ident, {}))
        bound = max(most, overridden.get(name) or 0)
        assert running <= bound, f"{running} hold {name}: {world.history()}"
    mind = world.mind
    if mind.pending is None and not mind.doubt:
        runs = {
            (view.id, view.attempt)
            for view in snapshot.jobs
            if view.state is JobState.RUNNING and view.worker == mind.worker
        }
        mine = mind.has | {report[:2] for report in mind.outbox}
        assert mind.has <= runs <= mine, f"the store says {runs}, the worker has {mine}: {world.history()}"


def explore(plan: Plan, most: int) -> int:
    """How many distinct states were checked."""
    start = first(plan)
    seen, todo = {start.key()}, deque([start])
    while todo and len(seen) < most:
        world = todo.popleft()
        for what, after in moves(plan, world):
            key = after.key()
            if key not in seen:
                seen.add(key)
                after.came_from = world, what
                check(plan, after)
                todo.append(after)
        world.stored = None
    return len(seen)


STATES = int(os.environ.get("HEADGATE_WORLD_STATES", "34000"))
"""Of each plan; the three together have more than 100,000."""


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Tens of thousands of worlds stay: looking through them for garbage would take a third of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", sorted(PLANS))
def test_the_first_states_of_a_small_world_break_no_rule(name: str) -> None:
    explore(PLANS[name], 1000)


@pytest.mark.slow(20)
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("name", sorted(PLANS))
def test_no_state_of_a_small_world_breaks_a_rule(name: str) -> None:
    assert explore(PLANS[name], STATES) >= STATES, "the plan has fewer states than were to be seen"


def test_the_exploration_finds_a_store_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfenced(engine: MemoryEngine, worker: str, number: int | None, now: int) -> Any:
        return engine._leased(worker, now)

    monkeypatch.setattr(MemoryEngine, "_in_turn", unfenced)
    with pytest.raises(AssertionError, match="the store says"):
        explore(PLANS["two workers"], 100_000)


def test_the_exploration_finds_a_store_that_compares_jobs_and_not_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_back = Transitions.take_back

    def by_job(step: Transitions, jobs: Sequence[Stored], known: Collection[Pair]) -> int:
        named = {id for id, _ in known}
        return take_back(step, jobs, {(job.id, job.attempt) for job in jobs if job.id in named})

    monkeypatch.setattr(Transitions, "take_back", by_job)
    with pytest.raises(AssertionError, match="the store says"):
        explore(PLANS["two workers"], 100_000)
