"""`/live` and `/ready` of one worker process.

Live says that it is no use to wait: the event loop stands still. Ready says that it takes part in the work. A store
that is away makes a process unready, never dead: ending it would help nothing.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from headgate import __version__
from headgate.worker.health import WorkerHealth
from headgate.worker.process.http_endpoint import JSON, Answer, Route
from headgate.worker.worker import Worker

STARTING = "the app is being loaded, or its store cannot be opened yet"


class ProcessHealth:
    """Made before the app is loaded; `watch` is told of the worker. Asked from the endpoint's thread."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._worker: Worker | None = None

    def watch(self, worker: Worker) -> None:
        """This is the worker that the process is for."""
        self._worker = worker

    def pages(self) -> dict[str, Route]:
        """The pages by path."""
        return {"/live": lambda: self._page("live"), "/ready": lambda: self._page("ready")}

    def _page(self, asked: str) -> Answer:
        facts = self.facts()
        return 200 if facts[asked] else 503, JSON, msgspec.json.encode(facts)

    def facts(self) -> dict[str, Any]:
        """What both pages say."""
        health = self._worker.health if self._worker is not None else None
        facts: dict[str, Any] = {
            "live": health is None or health.live,
            "ready": health is not None and health.ready,
            "why": STARTING if health is None else health.why,
            "pid": os.getpid(),
            "headgate": __version__,
            "uptime": round(time.monotonic() - self._began, 3),
        }
        return facts if health is None else facts | _of_worker(health)


def _of_worker(health: WorkerHealth) -> dict[str, Any]:
    facts = msgspec.structs.asdict(health)
    return {name: value for name, value in facts.items() if name not in ("live", "ready", "why")}
