"""Names that nothing knows: a queue or a limit that was mistyped is legal, does nothing, and should be pointed out."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from headgate.engine.contract import Engine, Filter
from headgate.errors import EngineError
from headgate.job import INTERNAL_QUEUE
from headgate.keys import parse

SHOWN = 10
MOST_LIMITS = 200


async def unknown_queue(engine: Engine, queue: str, declared: Iterable[str]) -> str | None:
    """A sentence about a queue that no task, worker or unfinished job uses; None about one that is used."""
    known = set(declared) | {status.name for status in await engine.queues() if not _only_paused(status)}
    for status in await engine.workers():
        known.update(status.worker.queues or ())
    if queue in known or await engine.count(Filter(queue=queue)):
        return None
    return f"nothing uses queue {queue!r}{instead(queue, known - {INTERNAL_QUEUE})}"


async def unknown_queues(engine: Engine, queues: Iterable[str] | None, declared: Iterable[str]) -> list[str]:
    """A sentence per queue that a worker is to serve and nothing uses; none where the store does not answer now."""
    with suppress(EngineError):
        found = [await unknown_queue(engine, queue, declared) for queue in queues or ()]
        return [f"{sentence}; the worker waits for its jobs" for sentence in found if sentence]
    return []


async def unknown_task(engine: Engine, task: str, declared: Iterable[str]) -> str | None:
    """A sentence about a task that no program, worker or job has; None about one that is known."""
    known = set(declared)
    for status in await engine.workers():
        known |= status.worker.tasks
    if task in known or await engine.count(Filter(task=task)):
        return None
    return f"nothing knows task {task!r}{instead(task, [one for one in known if not one.startswith('floating:')])}"


async def unknown_limit(engine: Engine, key: str, declared: Iterable[str]) -> str | None:
    """A sentence about a key whose limit is not declared; None about one whose limit is."""
    name, _ = parse(key)
    if name in declared or await engine.limits(name, limit=1):
        return None
    page = await engine.limits(limit=MOST_LIMITS)
    return f"no limit is named {name!r}{instead(name, {status.name for status in page})}"


async def unknown_cap(engine: Engine, name: str, tasks: Iterable[str], queues: Iterable[str]) -> str | None:
    """A sentence about a cap `task:NAME` or `queue:NAME` of something that nothing knows."""
    kind, _, called = name.partition(":")
    if kind == "queue" and called:
        return await unknown_queue(engine, called, queues)
    return await unknown_task(engine, called, tasks) if kind == "task" and called else None


def instead(name: str, known: Iterable[str]) -> str:
    """The names that there are, the nearest one first."""
    names = sorted(known)
    if near := get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]!r}?"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; there are: {', '.join(map(repr, names[:SHOWN]))}{more}" if names else ""


def _only_paused(status: object) -> bool:
    return not any(getattr(status, state) for state in ("scheduled", "ready", "waiting", "running"))
