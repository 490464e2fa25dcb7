"""What the next exchange will report: outcomes that wait to be settled, the latest progress of each attempt, and what
attempts say that they spent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Container, Sequence

from headgate.engine.contract import Attempt, Known, Outcome, Progress, Report, Spent
from headgate.worker.bell import Bell

PROGRESS_GAP = 0.1
"""Seconds between exchanges that are made for progress alone; progress that finds another exchange rides in that."""


class Outbox:
    """Filled by the runner, emptied by the exchange loop. Outcomes ring the bell at once: no timer batches them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bell: Bell) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._bell = bell
        self._outcomes: list[Outcome] = []
        self._progress: dict[str, Progress] = {}
        self._spent: dict[tuple[str, str], Spent] = {}
        self._progress_due = False
        self._next_progress = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pressing(self) -> bool:
        """Whether something is there that should be sent now."""
        return bool(self._outcomes) or self._progress_due

    @property
    def waiting(self) -> int:
        """How many outcomes wait to be sent."""
        return len(self._outcomes)

    @property
    def empty(self) -> bool:
        """Whether nothing at all is left to send."""
        return not (self._outcomes or self._progress or self._spent)

    @property
    def known(self) -> list[Known]:
        """The attempts whose outcome waits to be sent."""
        return [(outcome.job, outcome.attempt) for outcome in self._outcomes]

    def settle(self, outcome: Outcome) -> None:
        """An attempt has ended; from the loop's thread."""
        self._outcomes.append(outcome)
        self._bell.ring()

    def progress(self, attempt: Attempt, value: str) -> None:
        """An attempt says how far it is; from any thread. Replaces what was not sent yet."""
        self._progress[attempt.job] = Progress(attempt.job, attempt.number, value)
        self._announce_from_any_thread()

    def spent(self, attempt: Attempt, limit: str, units: int) -> None:
        """An attempt says what it spent; from any thread. Replaces what was not sent yet."""
        self._spent[attempt.job, limit] = Spent(attempt.job, attempt.number, limit, units)
        self._announce_from_any_thread()

    def _announce_from_any_thread(self) -> None:
        if threading.get_ident() == self._thread:
            self._announce()
        else:
            self._loop.call_soon_threadsafe(self._announce)

    def take(self, most: int | None = None) -> list[Report]:
        """What there is, up to `most` outcomes; these last, since an outcome ends the attempt that it speaks of."""
        outcomes, self._outcomes = self._outcomes[:most], [] if most is None else self._outcomes[most:]
        if not self._progress and not self._spent:
            return list[Report](outcomes)
        progress, self._progress = self._progress, {}
        spent, self._spent = self._spent, {}
        self._progress_due = False
        self._next_progress = self._loop.time() + PROGRESS_GAP
        return [*progress.values(), *spent.values(), *outcomes]

    def put_back(self, reports: Sequence[Report]) -> None:
        """What could not be sent goes first next time; what was overtaken meanwhile is dropped."""
        outcomes = [r for r in reports if not isinstance(r, Progress | Spent)]
        self._outcomes[:0] = outcomes
        ended = set(self.known)
        for report in reports:
            if isinstance(report, Spent):
                self._spent.setdefault((report.job, report.name), report)
            elif isinstance(report, Progress) and (report.job, report.attempt) not in ended:
                self._progress.setdefault(report.job, report)

    def keep(self, alive: Container[Known]) -> None:
        """Forget what speaks of other attempts than these."""
        self._outcomes = [one for one in self._outcomes if (one.job, one.attempt) in alive]
        self._progress = {job: p for job, p in self._progress.items() if (job, p.attempt) in alive}
        self._spent = {key: s for key, s in self._spent.items() if (s.job, s.attempt) in alive}

    def clear(self) -> None:
        """Forget everything: the lease under which it would count is gone."""
        self._outcomes.clear()
        self._progress.clear()
        self._spent.clear()
        self._progress_due = False

    def _announce(self) -> None:
        if self._timer is None and not self._progress_due:
            wait = self._next_progress - self._loop.time()
            self._timer = self._loop.call_later(max(wait, 0), self._press)

    def _press(self) -> None:
        self._timer = None
        self._progress_due = bool(self._progress or self._spent)
        self._bell.ring()
