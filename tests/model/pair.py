"""Two engines that hear the same commands at the same times, and everything they show, side by side."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate.clock import SECOND
from headgate.engine.contract import HISTORY_MINUTE, Engine, Filter, Snapshot
from headgate.engine.memory import MemoryEngine
from headgate.engine.rules.audit import audit
from headgate.errors import HeadgateError
from headgate.job import JobState
from headgate.keys import Key
from tests.model.vocabulary import IDS, SETTINGS, TENANTS
from tests.support.servers import SERVERS

KEYS = [
    *(
        Key(name, value, tenant, name in "RLW").ident
        for name in "ABFRLW"
        for value in (None, "1")
        for tenant in TENANTS
    ),
    *(Key(name).ident for name in ("task:t", "task:u", "queue:x", "unknown")),
]

Command = Callable[[Engine], Coroutine[Any, Any, Any]]
Questions = Callable[[Engine], dict[str, Coroutine[Any, Any, Any]]]


class Pair:
    """A reference and a rival."""

    def __init__(
        self, reference: str, rival: str, keys: Sequence[str] = KEYS, more: Questions | None = None
    ) -> None:
        self.names = (reference, rival)
        self.keys = keys
        self.more = more or _no_more
        self.turns = 0
        self.runner = asyncio.Runner()
        self.run = (
            self.runner.get_loop().run_until_complete
        )  # not `Runner.run`, which sets up signals for each verb
        self.directory = tempfile.TemporaryDirectory()
        self.servers = [
            SERVERS[name](Path(self.directory.name) / str(number), SETTINGS)
            for number, name in enumerate(self.names)
        ]
        for server in self.servers:
            server.directory.mkdir()
        self.engines: list[Engine] = [self.run(server.engine()) for server in self.servers]

    def close(self) -> None:
        for server in self.servers:
            self.run(server.close())
        self.runner.close()
        self.directory.cleanup()

    def do(self, command: Command) -> Any:
        """Give a command to both; what they answer, or refuse with, must be the same."""
        first, second = (self.run(_answer(command, engine)) for engine in self.engines)
        assert first == second, f"{self.names[0]} and {self.names[1]} answer: {first}\n{second}"
        return first

    def compare(self, now: int) -> Snapshot:
        """Everything they show is the same, and the audit finds nothing in either."""
        self.turns += 1
        asked = IDS[self.turns % len(IDS)]
        shown = [
            self.run(_all_that_shows(engine, now, asked, self.keys, self.more)) for engine in self.engines
        ]
        for what in shown[0].keys() - {"snapshot"}:
            first, second = shown[0][what], shown[1][what]
            assert first == second, (
                f"{self.names[0]} and {self.names[1]} show other {what}: {first}\n{second}"
            )
        snapshot: Snapshot = shown[1]["snapshot"]
        problems = audit(snapshot)
        assert problems == [], "the audit finds problems"
        return snapshot


async def _answer(command: Command, engine: Engine) -> Any:
    try:
        return _comparable(await command(engine))
    except HeadgateError as error:
        return type(error), str(error)


def _comparable(answer: Any) -> Any:
    """Without what the contract leaves open: the order of cancellations."""
    if hasattr(answer, "cancelling"):
        return msgspec.structs.replace(answer, cancelling=tuple(sorted(answer.cancelling)))
    return answer


def _no_more(engine: Engine) -> dict[str, Coroutine[Any, Any, Any]]:
    return {}


async def _all_that_shows(
    engine: Engine, now: int, asked: str, keys: Sequence[str], more: Questions
) -> dict[str, Any]:
    snapshot = await engine.snapshot(now=now)
    waiting = [view.id for view in snapshot.jobs if view.waiting_on is not None]
    questions = {
        "jobs": engine.get(IDS),
        "states": engine.states(IDS),
        "found jobs": engine.find(Filter()),
        "failed jobs": engine.find(Filter(error="boo", ended_since=now - 10 * SECOND)),
        "number of jobs": engine.count(Filter(states=(JobState.READY, JobState.FAILED))),
        "limits": engine.limits(now=now),
        "queues": engine.queues(),
        "workers": engine.workers(now=now),
        "keys in use": engine.keys_in_use("F", now=now),
        "facts": engine.explain(asked, now=now),
        "facts of a waiting job": engine.explain(
            waiting[int(asked[1:]) % len(waiting)] if waiting else "", now=now
        ),
        "ticks": engine.ticks(["nightly"]),
        "paused schedules": engine.paused_schedules(),
        "totals": engine.totals(),
        "keys": engine.keys(keys, holders=2, waiters=3, now=now),
        "tightest keys": _tightest(engine, now),
        "history": engine.history(0, step=HISTORY_MINUTE, each=True, now=now),
        **more(engine),
    }
    if isinstance(engine, MemoryEngine):  # which never waits
        answers = [await question for question in questions.values()]
    else:
        answers = await asyncio.gather(*questions.values())
    return {
        "snapshot": snapshot,
        "views": _views(snapshot),
        "holders": {key: dict(holders) for key, holders in snapshot.holders.items()},
        "free": dict(snapshot.free),
        "timers": dict(snapshot.timers),
        "most": dict(snapshot.most),
        "units": {key: dict(units) for key, units in snapshot.units.items()},
        "registered workers": snapshot.workers,
        **dict(zip(questions, answers, strict=True)),
    }


async def _tightest(engine: Engine, now: int) -> list[Any]:
    """Keys that as many jobs wait on may stand in any order."""
    found = await engine.tightest(limit=1000, now=now)
    assert found == sorted(found, key=lambda status: -status.waiting)
    return sorted(found, key=lambda status: (status.key, status.tenant))


def _views(snapshot: Snapshot) -> list[Any]:
    """Arrival numbers may have gaps; only their order counts."""
    arrived = sorted(snapshot.jobs, key=lambda view: view.order[1])
    return [msgspec.structs.replace(view, order=(view.order[0], place)) for place, view in enumerate(arrived)]
