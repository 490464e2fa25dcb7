"""What a worker process is to do: travels as one JSON text to the processes that a supervisor starts."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from headgate.worker.options import CONCURRENCY, GRACE, LEASE
from headgate.worker.pool.frames import AppSource

DONE = 0
CANNOT_START = 3
"""Exit code of a worker process that would fail again if it were started again: no such module, a wrong option."""
LIFESPAN_FAILED = 4
"""Exit code of a worker process whose app failed to open, or to close, what its lifespan function is for."""
RELOAD = 5
"""Exit code of a worker process that wants to be started anew because its code has changed."""

RELOAD_GRACE = 2.0
JOBS_SPREAD = 0.2
MEMORY_SPREAD = 0.1
"""By which part the bounds of several processes differ."""


class ChildFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Open files that a worker process gets from its supervisor."""

    registrations: int | None = None
    """Where it notes its registrations."""
    endpoint: int | None = None
    """A socket that listens, on which it answers its supervisor."""


NO_FILES = ChildFiles()


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One `headgate worker` command. Durations are seconds."""

    target: str
    factory: bool = False
    app_dir: str = "."
    processes: int = 1
    reload: bool = False
    queues: list[str] | dict[str, float] | None = None
    concurrency: int = CONCURRENCY
    threads: int | None = None
    lease: float = LEASE
    grace: float = GRACE
    name: str | None = None
    pool_processes: int | None = None
    max_jobs: int | None = None
    max_memory: int | None = None
    log_level: str = "info"
    log_json: bool = False
    log_config: str = "auto"
    supervised: bool = False
    health: tuple[str, int] | None = None
    """Host and port of the endpoint for probes."""
    metrics: tuple[str, int] | None = None
    """Host and port of the endpoint for scrapers."""
    numbers: str = ""
    """What shows them, as `module:class` (numbers.py)."""
    files: ChildFiles = NO_FILES

    @property
    def source(self) -> AppSource:
        """Where processes of a worker's pool find the app."""
        return AppSource(
            target=self.target,
            factory=self.factory,
            app_dir=self.app_dir,
            logs=(self.log_level, self.log_json, self.log_config),
        )

    def options(self) -> dict[str, Any]:
        """What `App.run_worker` is given."""
        return {
            "queues": self.queues,
            "concurrency": self.concurrency,
            "threads": self.threads,
            "lease": self.lease,
            "grace": min(self.grace, RELOAD_GRACE) if self.reload else self.grace,
            "name": self.name,
            "pool_processes": self.pool_processes,
            "max_jobs": self.max_jobs,
            "max_memory": self.max_memory,
        }

    @property
    def wears_out(self) -> bool:
        """Whether its processes end to be replaced by others."""
        return self.max_jobs is not None or self.max_memory is not None

    @property
    def answers(self) -> bool:
        """Whether its processes answer over HTTP."""
        return self.health is not None or self.metrics is not None

    def for_child(self, index: int, files: ChildFiles = NO_FILES) -> ProcessConfig:
        """The part of child `index`; a name that was given is made unique."""
        name = f"{self.name}-{index + 1}" if self.name and self.processes > 1 else self.name
        return msgspec.structs.replace(
            self,
            processes=1,
            supervised=True,
            name=name,
            files=files,
            max_jobs=self._spread(self.max_jobs, JOBS_SPREAD),
            max_memory=self._spread(self.max_memory, MEMORY_SPREAD),
        )

    def _spread(self, most: int | None, part: float) -> int | None:
        """A bound for one of several processes, a little lower at random: they must not all end at once."""
        if most is None or self.processes == 1:
            return most
        return max(1, round(most * random.uniform(1 - part, 1)))
