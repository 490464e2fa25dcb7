"""The table of each engine: what Headgate has to reach, and the peers beside it.

A peer that no target compares with is measured once, and a slow one with fewer jobs.
"""

from collections.abc import Mapping

from bench.checks import Check
from bench.rows import (
    BULK,
    DAY,
    DRAIN,
    ENQUEUE,
    GROWTH,
    IDLE,
    IMPORT,
    KEYS_5MS,
    KEYS_50MS,
    KEYS_FOUR_PROCESSES,
    LATENCY_OTHER,
    LATENCY_SAME,
    MILLION,
    ONE_KEY,
    READS,
    SHARE_ALONE,
    SHARE_MANY,
    SHARE_MANY_APART,
    SHARE_NEWCOMER,
    SHARE_WEIGHTS,
    THREE_LIMITS,
    TRAFFIC,
    WAITING,
    Entry,
    Row,
)

FEWER = {"jobs": 5_000}
SLOW = {"jobs": 2_000}
SERVER_SAMPLES = 100


def _shown(
    system: str, params: Mapping[str, int] | None = None, label: str = "", timeout: float = 60
) -> Entry:
    """Measured once, for comparison."""
    return Entry(system, params or {}, decides=False, rounds=1, label=label, timeout=timeout)


def _best(sign_bound: float) -> Check:
    return Check("rate", "≥", sign_bound, of_best_peer=True)


def _ideal(most: float, overlap: int) -> tuple[Check, Check]:
    return Check("times_ideal", "≤", most, "×"), Check("overlap", "=", overlap)


def _latency(p50: float, p99: float) -> tuple[Check, Check]:
    return Check("p50", "≤", p50, " ms"), Check("p99", "≤", p99, " ms")


NOT_SLOWED = Check("ratio", "≥", 0.9, "×")
FEW_ROUND_TRIPS = Check("round_trips", "≤", 0.5, " per job")
ANYWHERE = (
    SHARE_NEWCOMER.to(Check("last", "≤", 230)),
    SHARE_WEIGHTS.to(Check("off", "≤", 0.15)),
    SHARE_ALONE.to(Check("ratio", "≥", 0.95, "×")),
    SHARE_MANY.to(Check("ratio", "≥", 0.8, "×")),
    SHARE_MANY_APART.to(Check("ratio", "≥", 0.8, "×")),
    GROWTH.to(
        Check("ratio", "≤", 1.5, "×"), Check("longest", "≤", 100, " ms"), Check("script", "≤", 10, " ms")
    ),
    DAY.to(Check("records", "≤", 1.1, "×")),
    READS.to(Check("most", "≤", 150, " ms"), Check("ratio", "≥", 0.95, "×")),
    IMPORT.to(Check("milliseconds", "≤", 150, " ms")),
    IDLE.to(Check("rss", "≤", 60, " MB"), Check("cpu", "≤", 1, " % of a core")),
)

FLEXIQ = Entry("flexiq")
# A larger claim meets more jobs over their cap and puts each of them back.
FLEXIQ_KEYS = Entry("flexiq", {"batch": 1})
# As many at once as its limits allow: a job that is refused takes one of these places too.
DOCKET_KEYS = _shown("docket", {"concurrency": 50})
HUEY = (Entry("huey"), Entry("huey-normal", decides=False))

SQLITE = (
    DRAIN.to(_best(4), beside=(FLEXIQ, *HUEY)),
    ENQUEUE.to(_best(0.7), beside=(FLEXIQ, *HUEY)),
    BULK.to(_best(0.8), beside=(FLEXIQ,)),
    KEYS_5MS.to(*_ideal(1.6, 1), beside=(FLEXIQ_KEYS,)),
    KEYS_50MS.to(*_ideal(1.1, 1)),
    ONE_KEY.to(*_ideal(1.3, 10), beside=(FLEXIQ_KEYS,)),
    WAITING.to(NOT_SLOWED),
    THREE_LIMITS.to(Check("ratio", "≥", 0.5, "×")),
    LATENCY_SAME.to(*_latency(3, 10)),
    LATENCY_OTHER.to(*_latency(20, 40)),
    *ANYWHERE,
)

REDIS = (
    DRAIN.to(
        _best(3),
        beside=(
            Entry("dramatiq", FEWER),
            Entry("docket", FEWER),
            Entry("flexiq", FEWER),
            Entry("saq", SLOW),
            Entry("celery", SLOW),
            _shown("docket-default", {"jobs": 500}),
        ),
    ),
    ENQUEUE.to(
        _best(1),
        beside=(
            Entry("taskiq"),
            Entry("docket"),
            Entry("saq"),
            _shown("huey", label="huey (sync)"),
            _shown("dramatiq", label="dramatiq (sync)"),
            _shown("flexiq", label="flexiq (sync)"),
            _shown("celery", SLOW, "celery (sync)"),
        ),
    ),
    BULK.to(_best(0.8), beside=(FLEXIQ, Entry("docket"))),
    KEYS_5MS.to(
        *_ideal(1.6, 1),
        beside=(DOCKET_KEYS, _shown("docket", {"concurrency": 25, "workers": 2}, "docket, 2 workers")),
    ),
    KEYS_FOUR_PROCESSES.to(*_ideal(1.6, 1)),
    KEYS_50MS.to(*_ideal(1.1, 1), beside=(DOCKET_KEYS,)),
    ONE_KEY.to(*_ideal(1.3, 10), beside=(_shown("docket", {"concurrency": 10}),)),
    WAITING.to(
        Check("first", "≥", 0.9, "×"),
        beside=(_shown("docket", {"drains": 1, "waiting": 20_000}, "docket, 20,000 waiting"),),
    ),
    THREE_LIMITS.to(Check("ratio", "≥", 0.5, "×")),
    LATENCY_SAME.to(*_latency(1.5, 4), samples=SERVER_SAMPLES),
    LATENCY_OTHER.to(
        *_latency(1.5, 4),
        beside=(_shown("taskiq"), _shown("saq"), _shown("docket")),
        samples=SERVER_SAMPLES,
    ),
    TRAFFIC.to(FEW_ROUND_TRIPS),
    *ANYWHERE,
)

POSTGRES = (
    DRAIN.to(
        _best(0.8),
        beside=(
            Entry("pgqueuer"),
            Entry("flexiq", SLOW),
            Entry("saq", SLOW),
            Entry("procrastinate", SLOW),
            _shown("pgqueuer-default"),
        ),
    ),
    ENQUEUE.to(
        _best(0.8),
        beside=(
            Entry("pgqueuer"),
            _shown("saq", SLOW),
            _shown("procrastinate", SLOW),
            _shown("flexiq", SLOW, "flexiq (sync)"),
        ),
    ),
    BULK.to(_best(0.8), beside=(Entry("pgqueuer"), _shown("flexiq"), _shown("procrastinate"))),
    KEYS_5MS.to(
        *_ideal(1.8, 1),
        beside=(
            _shown("pgqueuer", {"batch": 25}),
            _shown("pgqueuer", {"batch": 25, "workers": 2}, "pgqueuer, 2 workers"),
            _shown("procrastinate", {"jobs": 1_000}),
        ),
    ),
    KEYS_FOUR_PROCESSES.to(*_ideal(1.8, 1)),
    KEYS_50MS.to(*_ideal(1.15, 1)),
    ONE_KEY.to(*_ideal(1.5, 10), beside=(_shown("pgqueuer", {"batch": 10}),)),
    WAITING.to(
        NOT_SLOWED,
        beside=(
            _shown("pgqueuer"),
            _shown("procrastinate", {"jobs": 20, "drains": 1}, timeout=90),
        ),
    ),
    THREE_LIMITS.to(Check("ratio", "≥", 0.5, "×")),
    LATENCY_SAME.to(*_latency(3, 8), samples=SERVER_SAMPLES),
    LATENCY_OTHER.to(*_latency(3, 8), beside=(_shown("pgqueuer"),), samples=SERVER_SAMPLES),
    TRAFFIC.to(FEW_ROUND_TRIPS),
    MILLION.to(Check("ratio", "≥", 0.8, "×"), beside=()),
    *ANYWHERE,
)

TABLES: dict[str, tuple[Row, ...]] = {"sqlite": SQLITE, "redis": REDIS, "postgres": POSTGRES}
