"""What is known about a chaos run: the notes, ordered and looked up, and what the store said at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from tests.chaos import rules
from tests.chaos.lives import Life, lives
from tests.chaos.notes import Note, of
from tests.chaos.rules import Rate

NEVER = 1 << 62
ARRIVALS = ("enqueue", "import")
"""The verbs that bring jobs."""


class Word(NamedTuple):
    """What an operator said about a limit or a queue, when it was asked for and when it was answered."""

    asked: int
    acked: int
    value: Any


class Replacement(NamedTuple):
    """A job that was to replace the one of its unique name. Without an answer it may take effect at any time; `done` if
    the answer was that it is stored."""

    asked: int
    answered: int
    id: str
    name: str
    done: bool = False


class Final(msgspec.Struct):
    """What the store says when everything has come to rest: the state and last attempt of each job that is left, of
    those that had several attempts how each of them ended, when jobs ended by the clock of the notes, and why cancelled
    ones did. `exact` if the store decides about an enqueue at once."""

    states: dict[str, str]
    attempts: dict[str, int]
    outcomes: dict[str, list[str]]
    audit: list[str] = msgspec.field(default_factory=list[str])
    stuck: list[str] = msgspec.field(default_factory=list[str])
    held: list[str] = msgspec.field(default_factory=list[str])
    ended: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    reasons: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    exact: bool = True


class Case:
    """All that is known about a run. `maxima` may be lowered to see that the judge would notice."""

    def __init__(
        self,
        notes: Sequence[Note],
        final: Final,
        maxima: Mapping[str, int] = rules.MAXIMA,
        buckets: Mapping[str, Rate] = rules.BUCKETS,
        windows: Mapping[str, Rate] = rules.WINDOWS,
    ) -> None:
        self.notes = sorted(notes, key=lambda each: each["t"])
        self.final = final
        self.maxima = maxima
        self.buckets = buckets
        self.windows = windows
        self._words: dict[tuple[str, str | None], list[Word]] = {}

    @cached_property
    def lives(self) -> list[Life]:
        return lives(self.notes)

    @cached_property
    def by_job(self) -> dict[str, list[Life]]:
        found: defaultdict[str, list[Life]] = defaultdict(list)
        for life in self.lives:
            found[life.job].append(life)
        return found

    @cached_property
    def by_key(self) -> dict[str, list[Life]]:
        found: defaultdict[str, list[Life]] = defaultdict(list)
        for life in self.lives:
            for key in life.keys:
                found[key].append(life)
        return found

    @cached_property
    def spent(self) -> dict[tuple[str, int], int]:
        """By attempt, what it said last that it had really spent."""
        return {(each["job"], each["attempt"]): each["units"] for each in of(self.notes, "spent")}

    @cached_property
    def heard(self) -> dict[tuple[str, int], tuple[int, int]]:
        """By attempt, what the store had heard of this, and when that was certain."""
        return {
            (each["job"], each["attempt"]): (each["t"], each["units"]) for each in of(self.notes, "heard")
        }

    @cached_property
    def acknowledged(self) -> dict[str, dict[str, Any]]:
        """By job, what its producer was told."""
        acked = [each for each in of(self.notes, "acked") if each["verb"] in ARRIVALS]
        return {job["id"]: {**job, "t": each["t"]} for each in acked for job in each["jobs"]}

    @cached_property
    def replacements(self) -> list[Replacement]:
        """Jobs that were to replace the one that has their unique name."""
        found: list[Replacement] = []
        open: defaultdict[int, list[int]] = defaultdict(list)
        for each in of(self.notes, "asked", "acked", "refused"):
            if each["verb"] != "enqueue":
                continue
            if each["kind"] == "asked":
                open[each["pid"]] = list(range(len(found), len(found) + len(each.get("replaces", []))))
                found += [Replacement(each["t"], NEVER, id, name) for id, name in each.get("replaces", [])]
            elif each["kind"] == "acked" or each["error"].startswith("JobExists"):
                for at in open.pop(each["pid"], []):
                    found[at] = found[at]._replace(answered=each["t"], done=each["kind"] == "acked")
        return found

    @cached_property
    def first_asked(self) -> dict[str, int]:
        """By job, when its enqueue was first asked for."""
        asked = [each for each in of(self.notes, "asked") if each["verb"] in ARRIVALS]
        return {id: each["t"] for each in reversed(asked) for id in each["ids"]}

    @cached_property
    def may_be_replaced(self) -> set[str]:
        """Acknowledged jobs that another one of their unique name may have cancelled."""
        by_name: defaultdict[str, list[Replacement]] = defaultdict(list)
        for each in self.replacements:
            by_name[each.name].append(each)
        return {
            id
            for id, job in self.acknowledged.items()
            for each in by_name.get(job.get("unique") or "", [])
            if each.id != id and each.answered > self.first_asked.get(id, 0)
        }

    @cached_property
    def bounds(self) -> dict[str, str]:
        """By job, also if its enqueue was never answered, the key or queue that may turn it away."""
        return {id: key for each in of(self.notes, "asked") for id, key in each.get("bounds", {}).items()}

    @cached_property
    def by_bound(self) -> dict[str, list[str]]:
        """By such a key, its jobs."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for id, key in self.bounds.items():
            found[key].append(id)
        return found

    def asked(self, verb: str, kind: str = "asked") -> dict[str, int]:
        """By job, when an operator last asked for this (or was told that it is done)."""
        found = [each for each in of(self.notes, kind) if each["verb"] == verb and "ids" in each]
        return {id: each["t"] for each in found for id in each["ids"]}

    def words(self, verb: str, key: str | None = None) -> list[Word]:
        """What operators said about limits and queues, in the order in which they asked."""
        if (verb, key) not in self._words:
            self._words[verb, key] = self._find_words(verb, key)
        return self._words[verb, key]

    def _find_words(self, verb: str, key: str | None) -> list[Word]:
        found: list[Word] = []
        open: dict[int, int] = {}
        for each in of(self.notes, "asked", "acked"):
            if each["verb"] == verb and each.get("key") == key:
                if each["kind"] == "asked":
                    open[each["pid"]] = len(found)
                    found.append(Word(each["t"], NEVER, each.get("max", verb)))
                else:
                    at = open[each["pid"]]
                    found[at] = found[at]._replace(acked=each["t"])
        return found


def name_of(key: str) -> str:
    """The limit that a key belongs to: `plan@acme=2` is one of `plan`."""
    return key.partition("=")[0].partition("@")[0]
