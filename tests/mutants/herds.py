"""All mutants, by store; those of what is the same on every store by room."""

from __future__ import annotations

from tests.mutants import hooks, memory, postgres, redis, sqlite, worker
from tests.mutants.mutant import Herd

HERDS: dict[str, Herd] = {
    "memory": memory.HERD,
    "sqlite": sqlite.HERD,
    "postgres": postgres.HERD,
    "redis": redis.HERD,
    "worker": worker.HERD,
    "hooks": hooks.HERD,
}
