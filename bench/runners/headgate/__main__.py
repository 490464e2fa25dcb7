"""Run one workload on Headgate; see `bench.child`."""

from bench.child import main
from bench.runners.headgate.drain import drain, three_limits
from bench.runners.headgate.enqueue import bulk, enqueue
from bench.runners.headgate.idle import idle
from bench.runners.headgate.importing import import_time
from bench.runners.headgate.keys import keys
from bench.runners.headgate.latency import latency_other, latency_same
from bench.runners.headgate.waiting import waiting

WORKLOADS = {
    "drain": drain,
    "enqueue": enqueue,
    "bulk": bulk,
    "keys": keys,
    "waiting": waiting,
    "three_limits": three_limits,
    "latency_same": latency_same,
    "latency_other": latency_other,
    "import_time": import_time,
    "idle": idle,
}

if __name__ == "__main__":
    main("headgate", WORKLOADS)
