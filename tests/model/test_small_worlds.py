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
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
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


class Store:
    """A state of the store. What a verb makes of it is found out once, whatever the worker's mind then is."""

    def __init__(self, engine: MemoryEngine, known: dict[Any, Store]) -> None:
        self.engine = engine
        self.known = known
        self.checked = False
        self._pickled = pickle.dumps(engine._store, pickle.HIGHEST_PROTOCOL)
        self._led_to: dict[Hashable, tuple[Store, Any]] = {}
        self._running: dict[str, set[Pair]] | None = None

    def do(self, what: Hashable, verb: Callable[[MemoryEngine], Any]) -> tuple[Store, Any]:
        """The state that comes of a verb, and its answer. `what` tells verbs apart."""
        if what not in self._led_to:
            engine = MemoryEngine(SETTINGS)
            engine._store = pickle.loads(self._pickled)
            answer = verb(engine)
            key = state(engine)
            if key not in self.known:
                self.known[key] = Store(engine, self.known)
            self._led_to[what] = self.known[key], answer
        return self._led_to[what]

    def runs(self, worker: str) -> set[Pair]:
        """What the store thinks that a worker runs."""
        if self._running is None:
            self._running = defaultdict(set)
            for view in run(self.engine.snapshot(now=START)).jobs:
                if view.state is JobState.RUNNING:
                    self._running[view.worker].add((view.id, view.attempt))
        return self._running[worker]


def state(engine: MemoryEngine) -> Hashable:
    """What tells one state of a store from another."""
    store = engine._store
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
    return jobs, holders, numbers, rules


class World(NamedTuple):
    """One state: the store, the worker's mind, and how often an operator and death have come."""

    store: Store
    mind: Mind
    changes: int = 0
    crashes: int = 0

    def think(self, mind: Mind) -> World:
        """Only the worker's mind is another one."""
        return self._replace(mind=mind)


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
    return World(Store(engine, {}), Mind())


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
        store, answer = world.store.do(
            message, lambda engine, message=message: _deliver(plan, engine, message)
        )
        after = world._replace(store=store)
        for mind in (gone, world.mind):
            yield f"{message} arrives, its answer is lost", after.think(mind)
            if answer is not None and world.mind.pending == message:
                yield f"{message} is answered", after.think(_hear(mind, message, answer))
        yield f"{message} is lost", world.think(gone)


def _deliver(plan: Plan, engine: MemoryEngine, message: Message) -> frozenset[Pair] | None:
    try:
        if message.known is not None:
            known = sorted(message.known)
            verb = engine.resume_worker(message.worker, message.number, known, now=START)
            return frozenset(run(verb).alive)
        reports = [_report(plan, *report) for report in message.reports]
        verb = engine.exchange(message.worker, reports, 1, number=message.number, now=START)
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
            store, _ = world.store.do(verb, change)
            yield verb, world._replace(store=store, changes=world.changes + 1)
    if world.crashes < 1:
        worker = world.mind.worker
        store, _ = world.store.do(("dies", worker), lambda engine: _die(engine, worker))
        mind = Mind("heir", flight=world.mind.flight)
        after = world._replace(store=store, mind=mind, crashes=world.crashes + 1)
        yield "the worker dies, and another one comes while its messages are still on their way", after
    if plan.other:
        store, _ = world.store.do("other", _other)
        yield "the other worker exchanges", world._replace(store=store)


def _die(engine: MemoryEngine, worker: str) -> None:
    run(engine.report_lost([worker], now=START))
    register(engine, "heir")


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


def _other(engine: MemoryEngine) -> None:
    """Another worker, on which nothing is ever lost."""
    running = list(engine._store.running.get("other", {}).values())
    reports = [Succeeded(job.id, job.attempt) for job in running]
    run(engine.exchange("other", reports, 0 if running else 1, now=START))


def check_store(plan: Plan, store: Store) -> None:
    """What holds in every state of the store."""
    snapshot = run(store.engine.snapshot(now=START))
    assert audit(snapshot) == []
    overridden = {scope[0]: override.max for scope, override in store.engine._store.book.overrides.items()}
    for name, most in plan.maxima:
        running = len(snapshot.holders.get(Key(name).ident, {}))
        bound = max(most, overridden.get(name) or 0)
        assert running <= bound, f"{running} hold {name}"


def check(world: World) -> None:
    """What holds whenever the worker is in no doubt."""
    mind = world.mind
    if mind.pending is None and not mind.doubt:
        runs = world.store.runs(mind.worker)
        mine = mind.has | {report[:2] for report in mind.outbox}
        assert mind.has <= runs <= mine, f"the store says {runs}, the worker has {mine}"


def explore(plan: Plan, most: int) -> int:
    """How many distinct states were checked."""
    start = first(plan)
    todo = deque([start])
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    while todo and len(came_from) < most:
        world = todo.popleft()
        for what, after in moves(plan, world):
            if after not in came_from:
                came_from[after] = world, what
                try:
                    if not after.store.checked:
                        check_store(plan, after.store)
                        after.store.checked = True
                    check(after)
                except AssertionError as error:
                    raise AssertionError(f"{error}: {_history(came_from, after)}") from None
                todo.append(after)
    return len(came_from)


def _history(came_from: Mapping[World, tuple[World, str] | None], world: World) -> str:
    """How the world came to be so."""
    steps: list[str] = []
    before = came_from[world]
    while before is not None:
        steps.append(before[1])
        before = came_from[before[0]]
    return " ← ".join(steps)


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
