"""Names that nothing knows: a queue or a limit that was mistyped is legal, does nothing, and should be pointed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches

from headgate.app.options import RESERVED_QUEUE
from headgate.app.task import AnyTask
from headgate.engine.contract import Engine, Filter
from headgate.errors import EngineError

SHOWN = 10


async def unknown_queue(engine: Engine, queue: str, declared: Iterable[str]) -> str | None:
    """A sentence about a queue that no task, worker or unfinished job uses; None about one that is used."""
    known = set(declared) | {status.name for status in await engine.queues() if not _only_paused(status)}
    for status in await engine.workers():
        known.update(status.worker.queues or ())
    if queue in known or await engine.count(Filter(queue=queue)):
        return None
    return f"nothing uses queue {queue!r}{instead(queue, known - {RESERVED_QUEUE})}"


async def unknown_queues(engine: Engine, queues: Iterable[str] | None, declared: Iterable[str]) -> list[str]:
    """A sentence per queue that a worker is to serve and nothing uses; none where the store does not answer now."""
    with suppress(EngineError):
        found = [await unknown_queue(engine, queue, declared) for queue in queues or ()]
        return [f"{sentence}; the worker waits for its jobs" for sentence in found if sentence]
    return []


async def unknown_cap(
    engine: Engine, name: str, tasks: Mapping[str, AnyTask], queues: Iterable[str]
) -> str | None:
    """A sentence about a cap `task:NAME` or `queue:NAME` of something that nothing knows."""
    kind, colon, called = name.partition(":")
    if not colon or kind not in ("task", "queue"):
        return None
    if kind == "queue":
        return await unknown_queue(engine, called, queues)
    known = set(tasks)
    for status in await engine.workers():
        known |= status.worker.tasks
    known = {task for task in known if not task.startswith("floating:")}
    if called in known or await engine.count(Filter(task=called)):
        return None
    return f"nothing knows task {called!r}{instead(called, known)}"


def instead(name: str, known: Iterable[str]) -> str:
    """The names that there are, the nearest one first."""
    names = sorted(known)
    if near := get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]!r}?"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; there are: {', '.join(map(repr, names[:SHOWN]))}{more}" if names else ""


def _only_paused(status: object) -> bool:
    return not any(getattr(status, state) for state in ("scheduled", "ready", "waiting", "running"))
