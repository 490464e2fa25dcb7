"""All mutants, by store."""

from __future__ import annotations

from tests.mutants import memory, redis, sqlite, worker
from tests.mutants.mutant import Herd

HERDS: dict[str, Herd] = {
    "memory": memory.HERD,
    "sqlite": sqlite.HERD,
    "redis": redis.HERD,
    "worker": worker.HERD,
}
