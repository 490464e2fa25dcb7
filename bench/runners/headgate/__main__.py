"""Run one workload on Headgate; see `bench.child`."""

from bench.child import main
from bench.runners.headgate.contender import Headgate
from bench.runners.headgate.growth import day, growth
from bench.runners.headgate.idle import idle
from bench.runners.headgate.importing import import_time
from bench.runners.headgate.million import million
from bench.runners.headgate.reads import reads
from bench.runners.headgate.shares import share_cost, share_newcomer, share_weights
from bench.runners.headgate.three_limits import three_limits
from bench.runners.headgate.traffic import traffic

OWN = {
    "three_limits": three_limits,
    "traffic": traffic,
    "import_time": import_time,
    "idle": idle,
    "million": million,
    "growth": growth,
    "day": day,
    "reads": reads,
    "share_newcomer": share_newcomer,
    "share_weights": share_weights,
    "share_cost": share_cost,
}

if __name__ == "__main__":
    main("headgate", Headgate, OWN)
