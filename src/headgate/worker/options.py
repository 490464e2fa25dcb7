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
from headgate.worker.memory import memory_used
from headgate.worker.queues import Queues

CONCURRENCY = 100
LEASE = 15
GRACE = 30
MOST_THREADS = 256
LEAST_MEMORY = 1024**2
SHORTEST_LEASE = SECOND // 10


class Options(msgspec.Struct, frozen=True):
    """How a worker works. `lease` is in microseconds, `grace` in seconds."""

    queues: Queues
    concurrency: int
    threads: int
    lease: int
    grace: float
    name: str
    pool_processes: int = 1
    max_jobs: int | None = None
    max_memory: int | None = None

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
    pool_processes: int | None = None,
    max_jobs: int | None = None,
    max_memory: int | None = None,
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
        cores() if pool_processes is None else _whole(pool_processes, "pool_processes"),
        None if max_jobs is None else _whole(max_jobs, "max_jobs", 1_000_000_000),
        None if max_memory is None else _memory(max_memory),
    )


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _whole(value: int, what: str, most: int = 100_000) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what}={value!r}: a whole number from 1 to {most} is needed")
    return value


def _memory(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < LEAST_MEMORY:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"max_memory={value!r}: a number of bytes is needed, {LEAST_MEMORY} or more")
    if memory_used() is None:
        raise ConfigError(f"max_memory={value!r}: this system does not tell how much memory a process takes")
    return value
