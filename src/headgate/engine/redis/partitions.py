"""Which partition a job lives in, and what may not be shared between partitions.

A tenant lives in one partition, so that its limits stay exact and each step stays atomic. Jobs without a tenant live in
partition 0, all of them: their limits are exact, too. What would have to be counted over several partitions (caps of
tasks and queues, `shared=True` limits of jobs with a tenant) is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from headgate.engine.contract import Limit
from headgate.errors import ConfigError
from headgate.job import NewJob
from headgate.keys import Key

_WHY = (
    "is shared by all tenants, but this store is split into {} partitions, between which nothing is counted; "
    "use partitions=1, or give each tenant a limit of its own"
)


def home(tenant: str, partitions: int) -> int:
    """The partition of a tenant."""
    return zlib.crc32(tenant.encode()) % partitions if tenant else 0


def check_limits(limits: Iterable[Limit], partitions: int) -> None:
    """Refuse caps that all tenants share."""
    for limit in limits if partitions > 1 else ():
        if limit.name.startswith(("task:", "queue:")):
            kind, _, name = limit.name.partition(":")
            bounds = limit.max is None and limit.max_waiting is not None
            what = "max_waiting" if bounds else "max_concurrent"
            raise ConfigError(f"{what} of {kind} {name!r} {_WHY.format(partitions)}")


def check_jobs(jobs: Iterable[NewJob], partitions: int) -> None:
    """Refuse limits that jobs with a tenant share with others."""
    for job in jobs if partitions > 1 else ():
        for use in job.uses if job.tenant else ():
            if (key := Key.of(use.key)).tenant != job.tenant:
                raise ConfigError(f"limit {key.name!r} of job {job.id!r} {_WHY.format(partitions)}")
