"""A worker on a split store, for tests: every verb goes to all parts, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.contract import Attempt, Engine, Known, Report, Worker


class Spread:
    """Remembers which part each attempt came from; a report goes back there."""

    def __init__(self, engine: Engine) -> None:
        self.parts = engine.parts()
        self._homes: dict[Known, int] = {}

    async def register(self, worker: Worker) -> None:
        """Begin a lease in every part."""
        for part in self.parts:
            await part.register(worker)

    async def exchange(
        self, worker: str, reports: Sequence[Report], want: int
    ) -> tuple[list[Attempt], list[Known]]:
        """Settle reports where their jobs run, and claim until `want` jobs are there; returns what was refused, too."""
        attempts: list[Attempt] = []
        refused: list[Known] = []
        for number, part in enumerate(self.parts):
            own = [each for each in reports if self._homes[each.job, each.attempt] == number]
            answer = await part.exchange(worker, own, want - len(attempts))
            self._homes.update(((each.job, each.number), number) for each in answer.attempts)
            attempts += answer.attempts
            refused += answer.refused
        return attempts, refused
