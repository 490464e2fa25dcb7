"""Run one workload on Headgate; see `bench.child`."""

import sys
from importlib import import_module

from bench.child import Workload, main
from bench.runners.headgate.contender import Headgate

MODULES = {
    "three_limits": "three_limits",
    "traffic": "traffic",
    "import_time": "importing",
    "idle": "idle",
    "million": "million",
    "growth": "growth",
    "day": "growth",
    "reads": "reads",
    "share_newcomer": "shares",
    "share_weights": "shares",
    "share_cost": "shares",
}
"""Where the workloads are that only Headgate has. Only the one that runs is loaded: what stands in memory costs each
collection of garbage, in every other row too."""


def own(name: str) -> dict[str, Workload]:
    """The workload of this name, if it is one of these."""
    if name not in MODULES:
        return {}
    return {name: getattr(import_module(f"bench.runners.headgate.{MODULES[name]}"), name)}


if __name__ == "__main__":
    main("headgate", Headgate, own(sys.argv[1]))
