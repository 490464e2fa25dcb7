"""A process that enqueues and steers at random, and notes what it asked for and what was acknowledged.

    python -m tests.chaos.producer SEED

An operation is noted before it is asked for and again when its answer came: what was asked and never answered may
have taken effect or not, what was acknowledged must have.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal

from headgate import JobExists, JobState, WrongState
from headgate.errors import HeadgateError
from headgate.job import NewJob
from tests.chaos import rules, shop
from tests.chaos.flow_kinds import FlowKinds, Make, bounded_by
from tests.chaos.imports import record, said_of
from tests.chaos.notes import note
from tests.chaos.shop import app
from tests.support.waiting import eventually

BACKLOG = 150
"""Unfinished jobs above which it waits: the rates would let them grow without end."""
CUSTOMERS, DOCKS, LINES, ADJUSTED, ACCOUNTS, UNIQUES = 8, 3, 4, 3, 3, 4
TENANTS = [f"tenant-{n}" for n in range(4)]
CONFLICTS: list[Literal["return", "raise", "replace"]] = ["return", "return", "raise", "replace"]
UNFINISHED = [state for state in JobState if not state.ended]


class Producer:
    """Whatever it does is decided by its dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.flow = FlowKinds(self.dice, shared=shop.SHARED)
        self.ids: list[str] = []
        self.count = 0
        self.paused = False
        self.overridden: set[str] = set()

    def act(self) -> None:
        """One operation. One that fails is forgotten: the notes say that it was asked for."""
        verbs: list[tuple[int, Callable[[], None]]] = [
            (30, self.enqueue),
            (3, self.crowd),
            (3, self.bring),
            (2, self.cancel),
            (1, self.restart),
            (1, self.expedite),
            (1, self.delete),
            (2, self.set_limit),
            (2, self.clear_limit),
            (2, self.set_share),
            (1, self.clear_share),
            (1, self.pause),
            (2, self.resume),
            (1, self.look),
        ]
        weights = [weight for weight, _ in verbs]
        with suppress(HeadgateError):
            self.dice.choices([verb for _, verb in verbs], weights)[0]()

    def enqueue(self) -> None:
        """One job or several; sometimes once more with the same ids, after an answer that did not come."""
        self._enqueue([self.job() for _ in range(self.dice.choice([1, 1, 1, 3, 10]))])

    def crowd(self) -> None:
        """Many jobs that want the same, at once or one after the other."""
        jobs = self.flow.crowd(lambda: {"id": self.new_id()})
        at_once = self.dice.random() < 0.5
        for some in [jobs] if at_once else [[job] for job in jobs]:
            self._enqueue(some)

    def _enqueue(self, jobs: Sequence[NewJob]) -> None:
        for again in (False, True, True):
            if self._enqueued(jobs, again=again) or self.dice.random() < 0.5:
                return

    def _enqueued(self, jobs: Sequence[NewJob], *, again: bool) -> bool:
        ids = [job.id for job in jobs]
        replaces = [(job.id, job.unique) for job in jobs if job.unique and job.on_conflict == "replace"]
        bounds = {job.id: bound for job in jobs if (bound := bounded_by(job)) is not None}
        note("asked", verb="enqueue", ids=ids, replaces=replaces, bounds=bounds)
        try:
            handles = [app.enqueue_sync(jobs[0])] if len(jobs) == 1 else app.enqueue_many_sync(jobs)
        except JobExists as error:
            if again and len(jobs) == 1 and jobs[0].unique is None:
                # Ids are given once: the earlier try was stored after all.
                note("acked", verb="enqueue", jobs=[_said(jobs[0], ids[0])])
                return True
            note("refused", verb="enqueue", ids=ids, error=repr(error))
            return True
        except HeadgateError as error:
            note("refused", verb="enqueue", ids=ids, error=repr(error))
            return False
        said = [_said(job, handle.id) for job, handle in zip(jobs, handles, strict=True)]
        note("acked", verb="enqueue", jobs=said)
        self.ids = [*self.ids, *(each["id"] for each in said)][-200:]
        return True

    def bring(self) -> None:
        """Import jobs from a system that never was; sometimes the same records again."""
        records = [record(self.dice, self.new_id()) for _ in range(self.dice.choice([1, 3]))]
        for _ in range(self.dice.choice([1, 1, 2])):
            note("asked", verb="import", ids=[each.id for each in records])
            results = app.import_jobs_sync(records)
            stored = [each for each, result in zip(records, results, strict=True) if result.refused is None]
            note("acked", verb="import", jobs=[said_of(each) for each in stored])
            self.ids = [*self.ids, *(each.id for each in stored)][-200:]

    def new_id(self) -> str:
        """One that is given once."""
        self.count += 1
        return f"{os.getpid()}-{self.count}-{self.dice.randrange(10**9)}"

    def job(self) -> NewJob:
        """Of any task, with any options."""
        dice = self.dice
        weights = [weight for weight, _ in self.kinds]
        make = dice.choices([make for _, make in self.kinds], weights)[0]
        options: dict[str, Any] = {"id": self.new_id()}
        if make not in (self.queue_up, self.only_one):
            if dice.random() < 0.2:
                options["priority"] = dice.choice([5, 20, 80])
            if dice.random() < 0.15:
                options["delay"] = dice.uniform(0.05, 2.0)
        return make(dice.choice([0.001, 0.01, 0.02, 0.03, 0.1, 0.3]), options)

    @cached_property
    def kinds(self) -> list[tuple[int, Make]]:
        """How often which kind of job."""
        return [
            (18, self.queue_up),
            (6, self.only_one),
            (30, self.on_customer),
            (
                7,
                lambda seconds, how: shop.load.options(**how).job(
                    seconds, self.any(CUSTOMERS), self.any(DOCKS)
                ),
            ),
            (7, lambda seconds, how: shop.ship.options(**how).job(seconds)),
            (7, lambda seconds, how: shop.print_label.options(**how).job(seconds)),
            (7, lambda seconds, how: shop.call.options(**how).job(seconds / 10, self.any(ACCOUNTS))),
            (7, lambda seconds, how: shop.post.options(**how).job(seconds / 10, self.any(ACCOUNTS))),
            (5, lambda seconds, how: shop.think.options(**how).job(seconds, self.any(2))),
            (
                5,
                lambda seconds, how: shop.serve.options(**how, tenant=self.tenant()).job(
                    seconds, self.any(2)
                ),
            ),
            (4, lambda seconds, how: shop.send.options(**how, tenant=self.tenant()).job(seconds)),
            (5, lambda seconds, how: shop.adjust.options(**how).job(seconds, self.any(ADJUSTED))),
            *self.flow.often(),
        ]

    def any(self, count: int) -> int:
        return self.dice.randrange(count)

    def tenant(self) -> str:
        return self.dice.choice(TENANTS)

    def queue_up(self, seconds: float, options: dict[str, Any]) -> NewJob:
        """Brief, so that the line moves."""
        return shop.queue_up.options(**options).job(seconds / 4, self.any(LINES))

    def only_one(self, seconds: float, options: dict[str, Any]) -> NewJob:
        """One per name, or the one that is there."""
        name, conflict = f"u{self.any(UNIQUES)}", self.dice.choice(CONFLICTS)
        return shop.only_one.options(**options, unique=name, on_conflict=conflict).job(seconds, name)

    def on_customer(self, seconds: float, options: dict[str, Any]) -> NewJob:
        """Of the tasks that share the keys of customers; few of them crash."""
        tasks = [shop.visit, shop.visit_in_thread, shop.stumble, shop.forget, shop.fail, shop.crash]
        task = self.dice.choices(tasks, [50, 50, 15, 10, 10, 1])[0]
        return task.options(**options).job(seconds, self.any(CUSTOMERS))

    def cancel(self) -> None:
        self._steer("cancel", app.cancel_sync)

    def restart(self) -> None:
        self._steer("restart", app.restart_sync)

    def expedite(self) -> None:
        self._steer("expedite", app.expedite_sync)

    def delete(self) -> None:
        self._steer("delete", app.delete_sync)

    def _steer(self, verb: str, call: Callable[..., Any]) -> None:
        ids = self.dice.sample(self.ids, min(len(self.ids), 2))
        note("asked", verb=verb, ids=ids)
        with suppress(WrongState):
            call(ids=ids)
        note("acked", verb=verb, ids=ids)

    def set_limit(self) -> None:
        key, most = f"{rules.ADJUSTED}={self.dice.randrange(ADJUSTED)}", self.dice.choice([0, 1, 1, 3])
        note("asked", verb="set_limit", key=key, max=most)
        app.set_limit_sync(key, most, by="chaos")
        note("acked", verb="set_limit", key=key, max=most)
        self.overridden.add(key)

    def clear_limit(self) -> None:
        if self.overridden:
            key = self.overridden.pop()
            note("asked", verb="set_limit", key=key, max=rules.MAXIMA[rules.ADJUSTED])
            app.clear_limit_sync(key)
            note("acked", verb="set_limit", key=key, max=rules.MAXIMA[rules.ADJUSTED])

    def set_share(self) -> None:
        app.set_share_sync(self.dice.choice(rules.SHARES), self.dice.choice(rules.WEIGHTS), by="chaos")

    def clear_share(self) -> None:
        app.clear_share_sync(self.dice.choice(rules.SHARES))

    def pause(self) -> None:
        note("asked", verb="pause")
        app.pause_sync("bulk")
        note("acked", verb="pause")

    def resume(self) -> None:
        note("asked", verb="resume")
        app.resume_sync("bulk")
        note("acked", verb="resume")

    def look(self) -> None:
        for id in self.ids[-3:]:
            app.explain_sync(id)
        app.limits_sync()

    def breathe(self) -> None:
        """Wait while there is plenty to do."""
        with suppress(HeadgateError):
            eventually(lambda: app.count_sync(state=UNFINISHED) <= BACKLOG, "room", 3600, every=0.2)


def _said(job: NewJob, id: str) -> dict[str, Any]:
    return {
        "id": id,
        "own": id == job.id,
        "task": job.task,
        "priority": job.priority,
        "delayed": bool(job.delay or job.at),
        "line": job.args if job.task == "queue_up" else None,
        "unique": job.unique,
        "within": None if job.start_within is None else job.start_within / 1e6,
        "share": job.share,
        "version": job.id if job.on_conflict == "update" else None,
    }


def main() -> None:
    """Until it is told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    producer = Producer(int(sys.argv[1]))
    pace = float(os.environ.get("CHAOS_PACE", "0.03"))
    while True:
        for _ in range(20):
            producer.act()
            time.sleep(producer.dice.expovariate(1 / pace))
        producer.breathe()


if __name__ == "__main__":
    main()
