"""Jobs of the tasks in `flow`, as producers make them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from headgate.job import NewJob
from headgate.keys import Key
from tests.chaos import flow
from tests.chaos.rules import AT_MOST, MAXIMA, ONCE_IN, PUT_OFF, SHARES

Make = Callable[[float, dict[str, Any]], NewJob]
KEYS = 2
BUSY = 3
"""So many times longer than others takes what is to meet a full house."""
ALONE = {"write": "letters"}
"""Tasks whose jobs have no key, and what bounds them."""
BOUNDED = {"page", "view", "draft", "crm", "inbox", "outbox"}


class FlowKinds:
    """Whatever they are is decided by dice. `how` are options that all kinds of jobs take."""

    def __init__(self, dice: random.Random, *, shared: bool) -> None:
        self.dice = dice
        self.shared = shared

    def often(self) -> list[tuple[int, Make]]:
        """How often which kind of job."""
        letters = [(3, self.write)] if self.shared else []
        kept = [
            (4, self.pack),
            (4, self.ride),
            (6, self.booth),
            (3, self.hurry),
            (3, self.index),
            (2, self.greet),
        ]
        paid = [(3, self.ask), (3, self.translate), (3, self.order), (4, self.attend)]
        return [*kept, *paid, *letters, *((3, make) for make in self._bounded())]

    def crowd(self, new_how: Callable[[], dict[str, Any]]) -> list[NewJob]:
        """Many of one kind at once; on shared queues one share's, and behind them some of others."""
        paid = [self.ask, self.translate, self.order]
        make = self.dice.choice(
            [self.ride, self.booth, self.index, self.pack, self.hurry, *paid, *self._bounded()]
        )
        count = 40 if make in (self.ride, self.booth) else 8
        jobs = [make(0.02, {**new_how(), "share": SHARES[0]}) for _ in range(count)]
        return jobs + [make(0.02, {**new_how(), "share": share}) for share in SHARES[1:]]

    def _bounded(self) -> list[Make]:
        return [self.refresh, self.view, self.draft, self.sync, self.receive, self.dispatch]

    def _key(self) -> int:
        return self.dice.randrange(KEYS)

    def pack(self, seconds: float, how: dict[str, Any]) -> NewJob:
        size = self.dice.choice([1, 1, 2, 3, 5, MAXIMA["shelf"]])
        return flow.pack.options(**_own(how)).job(seconds, self._key(), size)

    def ride(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.ride.options(id=how["id"]).job(seconds / 4, self._share(how))

    def booth(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.booth.options(id=how["id"]).job(seconds, self._share(how))

    def _share(self, how: dict[str, Any]) -> str:
        return how.get("share") or self.dice.choices(SHARES, [6, 2, 1, 1])[0]

    def refresh(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.refresh.options(**_own(how)).job(seconds * BUSY, self._key())

    def view(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.view.options(**_own(how)).job(seconds * BUSY, self._key())

    def draft(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.draft.options(**_own(how)).job(seconds * BUSY, self._key())

    def sync(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.sync.options(**_own(how)).job(seconds * BUSY, self._key())

    def receive(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.receive.options(**_own(how)).job(seconds * BUSY, self._key())

    def dispatch(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.dispatch.options(**_own(how)).job(seconds * BUSY, self._key())

    def write(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.write.options(**_own(how)).job(seconds)

    def hurry(self, seconds: float, how: dict[str, Any]) -> NewJob:
        expires = self.dice.choice([0.05, 0.1, 0.3, 1, 3])
        return flow.hurry.options(**_own(how), expires=expires).job(seconds * BUSY, self._key())

    def ask(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.ask.options(**_own(how)).job(seconds, *self._costs(), self._closed())

    def translate(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.translate.options(**_own(how)).job(seconds, *self._costs(), self._closed())

    def _costs(self) -> tuple[int, int]:
        """What a job is thought to cost, and what it does: less, or up to three times as much."""
        estimate = self.dice.choice([20, 50, 100, 200, 400])
        return estimate, int(estimate * self.dice.choice([0, 0.1, 0.5, 1, 1.5, 3]))

    def _closed(self) -> float:
        return self.dice.choice([0.2, 0.5, 1]) if self.dice.random() < 0.1 else 0

    def order(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.order.options(**_own(how)).job(seconds, self._key(), self._closed())

    def index(self, seconds: float, how: dict[str, Any]) -> NewJob:
        debounced = flow.index.options(
            id=how["id"],
            unique=f"doc-{self._key()}",
            on_conflict="update",
            delay=PUT_OFF,
            at_most=AT_MOST,
        )
        return debounced.job(seconds, how["id"])

    def greet(self, seconds: float, how: dict[str, Any]) -> NewJob:
        name = f"greet-{self._key()}"
        return flow.greet.options(id=how["id"], unique=name, unique_for=ONCE_IN).job(seconds, name)

    def attend(self, seconds: float, how: dict[str, Any]) -> NewJob:
        return flow.attend.options(**_own(how)).job(seconds)


def _own(how: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in how.items() if name != "share"}


def bounded_by(job: NewJob) -> str | None:
    """The key or queue that may turn the job away."""
    texts = [Key.of(use.key).text for use in job.uses]
    return next((text for text in texts if text.partition("=")[0] in BOUNDED), ALONE.get(job.task))
