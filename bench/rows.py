"""What is measured: the lines of the table, with the sizes of each. `targets.py` says on which systems."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from bench import wording
from bench.checks import Check
from bench.figures import Figures


@dataclass(frozen=True)
class Entry:
    """A system in a row.

    `params` replace some of the row's, for instance the number of jobs of a slow one: rates are compared as rates. One
    that does not decide is shown for comparison but is no part of "the best". `rounds` and `timeout` bound its time.
    """

    system: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    decides: bool = True
    rounds: int | None = None
    timeout: float = 60
    label: str = ""

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return self.label or self.system


@dataclass(frozen=True)
class Row:
    """One line of the table. `quick` replaces some of `params`; `rounds` overrides how often it is measured. One that
    takes minutes is only measured when it is `asked` for by name, and has a `timeout` of its own."""

    name: str
    title: str
    workload: str
    params: Mapping[str, Any]
    show: Callable[[Figures], str]
    quick: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rounds: int | None = None
    checks: tuple[Check, ...] = ()
    peers: tuple[Entry, ...] = ()
    asked: bool = False
    timeout: float | None = None

    def to(self, *checks: Check, beside: tuple[Entry, ...] = (), **params: Any) -> Self:
        """This row with what Headgate has to reach, and beside which systems."""
        return replace(self, checks=checks, peers=beside, params={**self.params, **params})


DRAIN = Row(
    "drain",
    "drain 20,000 no-op jobs, one worker process",
    "drain",
    {"jobs": 20_000, "concurrency": 100},
    wording.rate,
    quick={"jobs": 1_000},
)
ENQUEUE = Row(
    "enqueue", "enqueue one by one, awaited", "enqueue", {"jobs": 5_000}, wording.rate, quick={"jobs": 1_000}
)
BULK = Row("bulk", "enqueue 20,000 in bulk", "bulk", {"jobs": 20_000}, wording.rate, quick={"jobs": 5_000})
KEYS_5MS = Row(
    "keys-5ms",
    "5,000 jobs of 5 ms over 50 keys, max 1 each",
    "keys",
    {"jobs": 5_000, "keys": 50, "most": 1, "sleep": 0.005, "concurrency": 100},
    wording.times_ideal,
    quick={"jobs": 1_000},
)
# Little more places than keys: a process that can run a job of every key keeps all of them to itself.
KEYS_FOUR_PROCESSES = replace(
    KEYS_5MS,
    name="keys-4-procs",
    title="the same with 4 worker processes, 15 at once each",
    params={**KEYS_5MS.params, "workers": 4, "concurrency": 15},
    show=wording.times_ideal_by_many,
)
KEYS_50MS = Row(
    "keys-50ms",
    "1,000 jobs of 50 ms over 50 keys, max 1 each",
    "keys",
    {"jobs": 1_000, "keys": 50, "most": 1, "sleep": 0.05, "concurrency": 100},
    wording.times_ideal,
    quick={"jobs": 500},
)
ONE_KEY = Row(
    "one-key",
    "2,000 jobs of 5 ms on one key, max 10",
    "keys",
    {"jobs": 2_000, "keys": 1, "most": 10, "sleep": 0.005, "concurrency": 100},
    wording.times_ideal,
    quick={"jobs": 400},
)
WAITING = Row(
    "waiting",
    "2,000 no-ops while 100,000 jobs wait behind one held key, to none waiting",
    "waiting",
    {"jobs": 2_000, "waiting": 100_000, "concurrency": 100, "drains": 5},
    wording.ratio_at_first,
    quick={"waiting": 10_000, "drains": 3},
)
THREE_LIMITS = Row(
    "three-limits",
    "drain 20,000 no-ops with 3 concurrency limits each, to none",
    "three_limits",
    {"jobs": 20_000, "concurrency": 100},
    wording.ratio,
    quick={"jobs": 2_000},
)
# Few places: what a worker gives back when it stops keeps its old place, before all newcomers.
SHARE_NEWCOMER = Row(
    "share-newcomer",
    "100 jobs of a newcomer behind 100,000 of one tenant, equal weights: the start that is its last",
    "share_newcomer",
    {"waiting": 100_000, "jobs": 100, "before": 500, "concurrency": 10},
    wording.last_start,
    quick={"waiting": 5_000},
    rounds=1,
)
SHARE_WEIGHTS = Row(
    "share-weights",
    "weights 3 : 1 over 4,000 starts",
    "share_weights",
    {"jobs": 4_000, "weight": 3, "concurrency": 100},
    wording.shares_got,
    quick={"jobs": 1_000},
    rounds=1,
)
SHARE_ALONE = Row(
    "share-alone",
    "drain 20,000 no-ops of one tenant from a shared queue, to one that is not",
    "share_cost",
    {"tenants": 1, "each": 20_000, "turns": 3, "concurrency": 100},
    wording.ratio_and_enqueue,
    quick={"each": 2_000, "turns": 1},
)
SHARE_MANY = replace(
    SHARE_ALONE,
    name="share-many",
    title="the same with 10,000 tenants of 10 jobs each",
    params={"tenants": 10_000, "each": 10, "turns": 1, "concurrency": 100},
    quick={"tenants": 500},
    timeout=600,
)
SHARE_MANY_APART = replace(
    SHARE_MANY,
    name="share-many-apart",
    title="the same, each tenant's jobs enqueued at once: starts go back and forth over the store",
    params={**SHARE_MANY.params, "apart": True},
)
LATENCY_SAME = Row(
    "latency-same",
    "enqueue to start, idle worker in the same process",
    "latency_same",
    {"samples": 200, "concurrency": 100},
    wording.latency,
    quick={"samples": 40},
)
LATENCY_OTHER = replace(
    LATENCY_SAME,
    name="latency-other",
    title="enqueue to start, idle worker in another process",
    workload="latency_other",
)
TRAFFIC = Row(
    "traffic",
    "what the server counts per job in a busy drain of 20,000",
    "traffic",
    {"jobs": 20_000, "concurrency": 100},
    wording.traffic,
    quick={"jobs": 2_000},
    rounds=1,
)
MILLION = Row(
    "million",
    "drain a million no-op jobs: the slowest tenth to the first ones",
    "million",
    {"jobs": 1_000_000, "concurrency": 100},
    wording.long_drain,
    quick={"jobs": 100_000},
    rounds=1,
    asked=True,
)
GROWTH = Row(
    "growth",
    "every verb in a full store, to an empty one",
    "growth",
    {"sizes": [0, 10_000, 100_000], "samples": 20},
    wording.growth,
    quick={"sizes": [0, 1_000], "samples": 5},
    rounds=1,
    asked=True,
    timeout=3600,
)
DAY = Row(
    "day",
    "24 hours of traffic over ever new keys: what is kept, to the first hour",
    "day",
    {"hours": 24, "jobs": 50},
    wording.day,
    quick={"hours": 2, "jobs": 10},
    rounds=1,
    asked=True,
    timeout=3600,
)
READS = Row(
    "reads",
    "what operators ask of a million jobs, 100,000 waiting on 10,000 keys; a drain beside an open dashboard",
    "reads",
    {
        "jobs": 1_000_000, "waiting": 100_000, "keys": 10_000, "samples": 7, "drained": 40_000, "rounds": 5,
    },
    wording.reads,
    quick={"jobs": 60_000, "waiting": 5_000, "keys": 1_000, "samples": 3, "drained": 5_000, "rounds": 1},
    rounds=1,
    asked=True,
    timeout=3600,
)  # fmt: skip
IMPORT = Row(
    "import",
    "import headgate",
    "import_time",
    {"samples": 11},
    wording.import_times,
    quick={"samples": 5},
    rounds=1,
)
IDLE = Row(
    "idle", "an idle worker process", "idle", {"seconds": 10}, wording.idle, quick={"seconds": 3}, rounds=1
)
