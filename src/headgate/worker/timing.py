"""How a worker divides the length of its lease.

A lease is a promise that reports arrive, not that a process exists (rule 14). All bounds are parts of its length, so
that they keep their order whatever it is:

    retry a call < answer to a heartbeat < answer to an exchange < exchanges given up < the worker gives up < it lapses
         1/12              1/6                   1/3                    1/2                  19/20             1

An exchange that falls silent is given up after a third; there is time for another try before renewals stop at a half.
The last renewal was then sent at most a half after the trouble began, and the worker cancels what it runs 19/20
after that, before the store hands out anything: reports that do not get through hold their slots for a lease and
a half at most. A store that is away altogether for half a lease costs nothing: the last renewal before it is at most
a third old, and calls are tried again every twelfth.
"""

from __future__ import annotations

LONGEST_CALL = 30.0
SHORTEST_CALL = 0.1
LONGEST_RETRY = 5.0


class Timing:
    """Bounds in seconds, for a lease of so many seconds."""

    __slots__ = ("beat", "call", "fence", "lease", "renewal", "retry", "stuck")

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self.renewal = lease / 3
        """Between two renewals."""
        self.call = min(max(lease / 3, SHORTEST_CALL), LONGEST_CALL)
        """Until a verb must have answered."""
        self.beat = min(max(lease / 6, SHORTEST_CALL), LONGEST_CALL)
        """The same for a heartbeat, so that another one fits before the lease lapses."""
        self.retry = min(lease / 12, LONGEST_RETRY)
        """Between two tries while the store cannot be reached, at most."""
        self.stuck = max(lease / 2, SHORTEST_CALL)
        """Without an answer to any exchange, after which the lease is no longer renewed."""
        self.fence = lease * 0.95
        """After the last renewal was sent, when the worker cancels what it runs: the rest is for the cancelling."""
