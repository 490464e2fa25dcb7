"""The table: what is measured, on whom, and what Headgate has to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench import wording
from bench.checks import Check
from bench.child import Figures

EVERYONE = ("flexiq", "huey", "huey-normal")
FLEXIQ = ("flexiq",)


@dataclass(frozen=True)
class Row:
    """One line of the table. `quick` replaces some of `params`; `rounds` overrides how often it is measured."""

    name: str
    title: str
    workload: str
    params: Mapping[str, Any]
    checks: tuple[Check, ...]
    show: Callable[[Figures], str]
    peers: tuple[str, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rounds: int | None = None
    timeout: float = 180


ROWS = (
    Row(
        "drain",
        "drain 20,000 no-op jobs, one worker process",
        "drain",
        {"jobs": 20_000, "concurrency": 100},
        (Check("rate", "≥", 4, of_best_peer=True),),
        wording.rate,
        EVERYONE,
        quick={"jobs": 2_000},
    ),
    Row(
        "enqueue",
        "enqueue one by one, awaited",
        "enqueue",
        {"jobs": 5_000},
        (Check("rate", "≥", 0.7, of_best_peer=True),),
        wording.rate,
        EVERYONE,
        quick={"jobs": 1_000},
    ),
    Row(
        "bulk",
        "enqueue 20,000 in bulk",
        "bulk",
        {"jobs": 20_000},
        (Check("rate", "≥", 0.8, of_best_peer=True),),
        wording.rate,
        FLEXIQ,
        quick={"jobs": 5_000},
    ),
    Row(
        "keys-5ms",
        "5,000 jobs of 5 ms over 50 keys, max 1 each",
        "keys",
        {"jobs": 5_000, "keys": 50, "most": 1, "sleep": 0.005, "concurrency": 100},
        (Check("times_ideal", "≤", 1.6, "×"), Check("overlap", "=", 1)),
        wording.times_ideal,
        FLEXIQ,
        quick={"jobs": 1_000},
    ),
    Row(
        "keys-50ms",
        "1,000 jobs of 50 ms over 50 keys, max 1 each",
        "keys",
        {"jobs": 1_000, "keys": 50, "most": 1, "sleep": 0.05, "concurrency": 100},
        (Check("times_ideal", "≤", 1.1, "×"), Check("overlap", "=", 1)),
        wording.times_ideal,
        quick={"jobs": 500},
    ),
    Row(
        "one-key",
        "2,000 jobs of 5 ms on one key, max 10",
        "keys",
        {"jobs": 2_000, "keys": 1, "most": 10, "sleep": 0.005, "concurrency": 100},
        (Check("times_ideal", "≤", 1.3, "×"), Check("overlap", "=", 10)),
        wording.times_ideal,
        FLEXIQ,
        quick={"jobs": 400},
    ),
    Row(
        "waiting",
        "2,000 no-ops while 100,000 jobs wait behind one held key, to none waiting",
        "waiting",
        {"jobs": 2_000, "waiting": 100_000, "concurrency": 100, "drains": 5},
        (Check("ratio", "≥", 0.9, "×"),),
        wording.ratio,
        quick={"waiting": 10_000, "drains": 3},
    ),
    Row(
        "three-limits",
        "drain 20,000 no-ops with 3 concurrency limits each, to none",
        "three_limits",
        {"jobs": 20_000, "concurrency": 100},
        (Check("ratio", "≥", 0.5, "×"),),
        wording.ratio,
        quick={"jobs": 2_000},
    ),
    Row(
        "latency-same",
        "enqueue to start, idle worker in the same process",
        "latency_same",
        {"samples": 200},
        (Check("p50", "≤", 3, " ms"), Check("p99", "≤", 10, " ms")),
        wording.latency,
        quick={"samples": 40},
    ),
    Row(
        "latency-other",
        "enqueue to start, idle worker in another process",
        "latency_other",
        {"samples": 200},
        (Check("p50", "≤", 20, " ms"), Check("p99", "≤", 40, " ms")),
        wording.latency,
        quick={"samples": 40},
    ),
    Row(
        "import",
        "from headgate import App",
        "import_time",
        {"samples": 11},
        (Check("milliseconds", "≤", 150, " ms"),),
        wording.milliseconds,
        quick={"samples": 5},
        rounds=1,
    ),
    Row(
        "idle",
        "an idle worker process",
        "idle",
        {"seconds": 10},
        (Check("rss", "≤", 60, " MB"), Check("cpu", "≤", 1, " % of a core")),
        wording.idle,
        quick={"seconds": 3},
        rounds=1,
    ),
)
