"""All mutants, by store."""

from __future__ import annotations

from tests.mutants import memory, postgres, redis, sqlite, worker
from tests.mutants.mutant import Herd

HERDS: dict[str, Herd] = {
    "memory": memory.HERD,
    "sqlite": sqlite.HERD,
    "postgres": postgres.HERD,
    "redis": redis.HERD,
    "worker": worker.HERD,
}
