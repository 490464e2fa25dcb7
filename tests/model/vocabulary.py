"""What the state machine can say: few names, so that commands meet each other."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.clock import SECOND
from headgate.engine.contract import (
    Algorithm,
    Done,
    ImportedJob,
    Limit,
    NewArguments,
    Override,
    Settings,
    Worker,
)
from headgate.job import AttemptOutcome, NewJob, PastAttempt
from headgate.keys import Key, Use, canonical
from headgate.retry import RetryPolicy
from tests.support.world import START

SETTINGS = Settings(
    patience=2,
    reservation_ttl=4 * SECOND,
    keep_succeeded=20 * SECOND,
    keep_failed=40 * SECOND,
    keep_cancelled=40 * SECOND,
)

IDS = [f"j{number}" for number in range(14)]
QUEUES = ["x", "y", "z"]
SERVED = [None, None, ["x"], ["y", "x"], ["z", "y", "x"]]
"""Which queues a claim asks for; a list is strict: queue after queue."""
TASKS = ["t", "u"]
TENANTS = ["", "acme"]
WORKERS = [
    Worker("w1", frozenset({"t", "u"}), None, 1000 * SECOND, concurrency=30, threaded=frozenset({"u"})),
    Worker("w2", frozenset({"t"}), None, 1000 * SECOND, concurrency=1),
    Worker("w3", frozenset({"t", "u"}), ("x",), 6 * SECOND, threaded=frozenset({"t"})),
]
WORKER_IDS = [worker.id for worker in WORKERS]

WINDOW = Limit("W", "rate", 2, 10 * SECOND, algorithm="sliding_window")
"""Never changed, so that a simple count can judge it."""

FIRST_LIMITS = [
    Limit("A", "concurrency", 1),
    Limit("B", "concurrency", 2),
    Limit("F", "floating", 1),
    Limit("R", "rate", 2, 10 * SECOND),
    Limit("L", "rate", 4, 10 * SECOND, algorithm="leaky"),
    WINDOW,
]
CHANGING = ["A", "B", "F", "R", "L", "task:t", "queue:x"]
OUTCOMES: list[AttemptOutcome] = ["failed", "failed", "succeeded", "cancelled"]
FLOATING = ["c0:F", "c0:F=1", "c4:acmeF"]

numbers = st.sampled_from([0, 1, 2, 3, None])
ids = st.sampled_from(IDS)
some_ids = st.lists(ids, min_size=1, max_size=3)
pauses = st.sampled_from([0.0, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0])
microseconds = pauses.map(lambda seconds: round(seconds * SECOND))


@st.composite
def done(draw: st.DrawFn) -> Done:
    at = START + draw(st.sampled_from([0, 1, 59, 60, 61, 3600])) * SECOND
    counts = {
        name: draw(st.sampled_from([0, 1, 7])) for name in ("started", "failed", "waited", "longest", "ran")
    }
    return Done(at, draw(st.sampled_from(QUEUES)), draw(st.sampled_from(TASKS)), **counts)


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    name = draw(st.sampled_from(CHANGING))
    max = draw(numbers)
    match name:
        case "R":
            burst = draw(st.sampled_from([None, 1, 3]))
            algorithms: list[Algorithm] = ["token_bucket", "token_bucket", "sliding_window"]
            algorithm = draw(st.sampled_from(algorithms))
            return Limit("R", "rate", max, 10 * SECOND, burst, algorithm)
        case "L":
            return Limit("L", "rate", max, 10 * SECOND, algorithm="leaky")
        case "F":
            return Limit("F", "floating", max)
        case _:
            return Limit(name, "concurrency", max)


@st.composite
def scopes(draw: st.DrawFn) -> tuple[str, str | None, str | None]:
    name = draw(st.sampled_from([*CHANGING, "undeclared"]))
    value = draw(st.sampled_from([None, None, "1"]))
    return name, value, draw(st.sampled_from([None, None, "acme"]))


@st.composite
def overrides(draw: st.DrawFn, now: int) -> Override:
    name, value, tenant = draw(scopes())
    until = draw(st.sampled_from([None, None, 3, 15]))
    ends = None if until is None else now + until * SECOND
    return Override(name, draw(numbers), value, tenant, "ops", now, "because", ends)


@st.composite
def uses(draw: st.DrawFn, tenant: str) -> tuple[Use, ...]:
    names = draw(st.lists(st.sampled_from(["A", "A=1", "B", "F", "F=1", "R", "L", "W"]), max_size=3))
    needs: list[tuple[Key, int]] = []
    for text in names:
        name, _, value = text.partition("=")
        rate = name in "RLW"
        cost = draw(st.sampled_from([1, 1, 1, 2])) if name in "RW" else 1
        needs.append((Key(name, value or None, tenant if name != "B" else "", rate), cost))
    return canonical(needs)


@st.composite
def arguments(draw: st.DrawFn) -> NewArguments:
    """Other arguments, now and then with a key of a limit that is not declared."""
    found = draw(uses(draw(st.sampled_from(TENANTS))))
    unknown = (Use("c0:undeclared"),) if draw(st.integers(0, 9)) == 9 else ()
    return NewArguments(draw(st.sampled_from(["{}", '{"n":1}'])), (*found, *unknown))


@st.composite
def jobs(draw: st.DrawFn, id: str | None = None) -> NewJob:
    tenant = draw(st.sampled_from(TENANTS))
    delay = draw(st.sampled_from([0, 0, 0, 0, 2 * SECOND]))
    return NewJob(
        id=id or draw(ids),
        task=draw(st.sampled_from([*TASKS, "t"])),
        queue=draw(st.sampled_from(QUEUES)),
        tenant=tenant,
        priority=draw(st.sampled_from([50, 50, 10])),
        delay=delay,
        uses=draw(uses(tenant)),
        retry=RetryPolicy(
            draw(st.integers(1, 3)),
            draw(st.sampled_from([0, SECOND])),
            2.0,
            5 * SECOND,
            losses=draw(st.sampled_from([5, 5, 2, 1, 0])),
        ),
        unique=draw(st.sampled_from([None, None, None, "u"])),
        on_conflict=draw(st.sampled_from(["return", "raise", "replace"])),
        retention=draw(st.sampled_from([None, None, 0])),
        headers=draw(st.sampled_from([None, '{"h":"1"}'])),
    )


@st.composite
def imports(draw: st.DrawFn, history: tuple[PastAttempt, ...], now: int) -> ImportedJob:
    """A record that may go on where a stored history ends."""
    job = draw(jobs())
    begun = history if draw(st.booleans()) else ()
    attempts = list(begun)
    for _ in range(draw(st.integers(0, 2))):
        outcome = draw(st.sampled_from(OUTCOMES))
        number = len(attempts) + 1
        attempts.append(PastAttempt(number, outcome, number * SECOND, (number + 1) * SECOND, "old", "boom"))
    enqueued_at = draw(st.sampled_from([None, now - 100 * SECOND]))
    return ImportedJob(job, tuple(attempts), enqueued_at)
