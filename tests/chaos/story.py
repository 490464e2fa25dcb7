"""Notes of runs that never were, for the judge to be tried on."""

from __future__ import annotations

from typing import Any

from tests.chaos.case import Case, Final
from tests.chaos.judge import judge
from tests.chaos.notes import Note

MS = 1_000_000
SECOND = 1_000 * MS


class Story:
    """Notes of a run that never was; times are milliseconds."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.final = Final({}, {}, {})

    def note(self, at: float, kind: str, pid: int = 1, **what: Any) -> None:
        self.notes.append({"t": int(at * MS), "kind": kind, "pid": pid, **what})

    def enqueue(
        self,
        at: float,
        id: str,
        task: str = "visit",
        line: str | None = None,
        bound: str | None = None,
        **what: Any,
    ) -> None:
        bounds = {} if bound is None else {id: bound}
        self.note(at, "asked", 90, verb="enqueue", ids=[id], bounds=bounds)
        job = {"id": id, "own": True, "task": task, "priority": 50, "delayed": False, "line": line, **what}
        self.note(at + 1, "acked", 90, verb="enqueue", jobs=[job])
        self.final.states[id], self.final.attempts[id] = "succeeded", 1

    def only_one(self, at: float, id: str, name: str, *, replace: bool = False) -> None:
        replaces = [(id, name)] if replace else []
        self.note(at, "asked", 90, verb="enqueue", ids=[id], replaces=replaces)
        job = {"id": id, "own": True, "task": "only_one", "line": None, "unique": name}
        self.note(at + 1, "acked", 90, verb="enqueue", jobs=[job])
        self.final.states[id], self.final.attempts[id] = "succeeded", 1

    def run(
        self, job: str, start: float, end: float | None, key: str, attempt: int = 1, pid: int = 1, **what: Any
    ) -> None:
        said = {"task": "visit", "queue": "default", "claimed": int(start * MS), **what}
        self.note(start, "start", pid, job=job, attempt=attempt, keys=[key], **said)
        if end is not None:
            self.note(end, "end", pid, job=job, attempt=attempt, how=what.get("how", "ok"))

    def ask(self, at: float, verb: str, *ids: str, **what: Any) -> None:
        said = {"ids": list(ids), **what} if ids else what
        self.note(at, "asked", 91, verb=verb, **said)
        self.note(at + 1, "acked", 91, verb=verb, **said)

    def cancel(self, at: float, id: str, reason: str) -> None:
        """The store ended it so."""
        self.final.states[id], self.final.ended[id] = "cancelled", int(at * MS)
        self.final.reasons[id] = reason

    def renew(self, *at: float, worker: str = "w", seconds: float = 1) -> None:
        """A lease of so many seconds."""
        for sent in at:
            self.note(sent + 1, "renewed", worker=worker, sent=int(sent * MS), seconds=seconds)

    def said(self) -> list[str]:
        return judge(Case(self.notes, self.final))


def quiet() -> Story:
    """Two jobs on one key, one after the other; nothing is wrong."""
    story = Story()
    for number in (1, 2):
        story.enqueue(number, f"j{number}")
        story.run(f"j{number}", number * 100, number * 100 + 50, "customer=1")
    return story


def names(said: list[str]) -> set[str]:
    """The checks that complain."""
    return {each.partition(":")[0] for each in said}
