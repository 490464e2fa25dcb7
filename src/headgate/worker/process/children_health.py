"""`/live` and `/ready` of a supervisor: how each of its processes stands.

Ready if at least one process is: the others are being started again, which is what a supervisor is for. Live unless a
process lives that no longer turns: that one only the end of all of them can help.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from headgate import __version__
from headgate.worker.process.endpoints import ask
from headgate.worker.process.http_endpoint import JSON, Answer, Route

ANSWER = 0.7
"""Seconds that a process has to say how it stands: probes wait for one second."""


class Supervised(Protocol):
    """One place in the row of worker processes."""

    answered: bool
    """Whether the process that fills it has answered before; one that starts has not."""

    @property
    def pid(self) -> int | None: ...
    @property
    def port(self) -> int | None: ...


class ChildrenHealth:
    """Asked from the endpoint's thread."""

    def __init__(self, children: Sequence[Supervised]) -> None:
        self._children = children

    def pages(self) -> dict[str, Route]:
        """The pages by path."""
        return {"/live": lambda: self._page("live"), "/ready": lambda: self._page("ready")}

    async def _page(self, asked: str) -> Answer:
        processes = await asyncio.gather(*(_facts(child) for child in self._children))
        facts: dict[str, Any] = {
            "live": all(process["live"] for process in processes),
            "ready": any(process["ready"] for process in processes),
            "pid": os.getpid(),
            "headgate": __version__,
            "processes": processes,
        }
        return 200 if facts[asked] else 503, JSON, msgspec.json.encode(facts)


async def _facts(child: Supervised) -> dict[str, Any]:
    pid, port = child.pid, child.port
    if pid is None or port is None:
        return {"live": True, "ready": False, "why": "it is being started again", "pid": None}
    try:
        _, body = await ask(port, "/live", ANSWER)
    except TimeoutError:
        why = f"it did not answer within {ANSWER:g} s" if child.answered else "it is starting"
        return {"live": not child.answered, "ready": False, "why": why, "pid": pid}
    except OSError:
        return {"live": True, "ready": False, "why": "it has just ended", "pid": pid}
    child.answered = True
    return msgspec.json.decode(body, type=dict[str, Any])
