"""Does a store obey the rules, and can what is wrong be mended? The audit decides, the store mends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.app.info import Info
from headgate.engine.contract import Engine, Part
from headgate.engine.rules.audit import audit

TRIES = 5
"""Snapshots at most. Each that is torn leaves only those problems that all before it showed, too."""

Progress = Callable[[int], None]
"""Called with the number of slices that were looked at."""


class AuditReport(Info, frozen=True):
    """Whether what a store keeps fits together. `repaired` says what a repair found and mended before; each of these
    sentences is the trace of a defect."""

    problems: tuple[str, ...]
    repaired: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Nothing is wrong, or nothing is any more."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As of every record, and `ok`."""
        return {"ok": self.ok, **super().to_dict()}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core, handler)
        schema["properties"] = {"ok": {"type": "boolean"}, **schema["properties"]}
        return schema

    def __str__(self) -> str:
        return "\n".join(self.problems) if self.problems else "no problems"


async def find_problems(engine: Engine) -> tuple[str, ...]:
    """What the audit finds. A snapshot that was read in several steps may show what never was: then a problem counts
    only if it shows in every further snapshot, too."""
    snapshot = await engine.snapshot()
    problems = audit(snapshot)
    tries = 1
    while problems and snapshot.torn and tries < TRIES:
        snapshot = await engine.snapshot()
        tries += 1
        seen = audit(snapshot)
        problems = [one for one in seen if one in problems] if snapshot.torn else seen
    return tuple(problems)


async def repair(engine: Engine, progress: Progress | None = None) -> tuple[str, ...]:
    """Look at every key of the store again, slice after slice, and mend what cannot be (rule 20)."""
    healed: list[str] = []
    slices = 0
    for part in engine.parts():
        after: str | None = None
        while True:
            after = await _slice(part, after, healed)
            slices += 1
            if progress is not None:
                progress(slices)
            if after is None:
                break
    return tuple(healed)


async def _slice(part: Part, after: str | None, healed: list[str]) -> str | None:
    rechecked = await part.recheck(after)
    healed += [f"{part.name}: {sentence}" if part.name else sentence for sentence in rechecked.healed]
    return rechecked.after
