"""A worker's options, checked before anything starts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from headgate.clock import SECOND, duration_us
from headgate.errors import ConfigError
from headgate.keys import check_text
from headgate.worker.queues import Queues

CONCURRENCY = 100
LEASE = 15
GRACE = 30
MOST_THREADS = 256
SHORTEST_LEASE = SECOND // 10


class Options(msgspec.Struct, frozen=True):
    """How a worker works. `lease` is in microseconds, `grace` in seconds."""

    queues: Queues
    concurrency: int
    threads: int
    lease: int
    grace: float
    name: str

    @property
    def lease_seconds(self) -> float:
        """The length of the lease in seconds."""
        return self.lease / SECOND


def options(
    queues: Iterable[str] | Mapping[str, float] | None = None,
    concurrency: int = CONCURRENCY,
    threads: int | None = None,
    lease: float | timedelta = LEASE,
    grace: float | timedelta = GRACE,
    name: str | None = None,
    *,
    internal: bool = False,
) -> Options:
    """Options from what a caller gives; what is wrong is refused by name."""
    concurrency = _whole(concurrency, "concurrency")
    lease_us = duration_us(lease, "lease=")
    if lease_us < SHORTEST_LEASE:
        raise ConfigError(f"lease={lease!r}: at least 0.1 seconds are needed; 15 is a good value")
    return Options(
        Queues(queues, internal=internal),
        concurrency,
        min(concurrency, MOST_THREADS) if threads is None else _whole(threads, "threads"),
        lease_us,
        duration_us(grace, "grace=") / SECOND,
        f"{socket.gethostname()[:64]}-{os.getpid()}" if name is None else check_text(name, "worker name"),
    )


def _whole(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what}={value!r}: a whole number from 1 to 100000 is needed")
    return value
