"""The rules of admission on the memory ledger, one decision at a time."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.clock import SECOND
from headgate.engine.contract import Limit
from headgate.engine.memory.ledger import MemoryLedger
from headgate.engine.memory.store import MemoryStore
from headgate.engine.rules.admission import LOOK_MORE, OFFER_MOST, UNLIMITED, Admission
from headgate.engine.rules.stored import Stored
from headgate.job import JobState, NewJob
from headgate.keys import Key, canonical

S = JobState


class Desk:
    """A store, and one admission after another over it."""

    def __init__(self, patience: int = 2) -> None:
        self.store = MemoryStore()
        self.now = 1000 * SECOND
        self.patience = patience
        self.rates: set[str] = set()

    def limit(self, name: str, max: int | None) -> None:
        self.store.book.limits[name] = Limit(name, "concurrency", max)
        self.store.book.changed()

    def rate(self, name: str, max: int | None, seconds: int = 10) -> None:
        self.rates.add(name)
        self.store.book.limits[name] = Limit(name, "rate", max, seconds * SECOND)
        self.store.book.changed()

    def admission(self) -> Admission[Stored]:
        """A new step."""
        ledger = MemoryLedger(self.store, self.now, 10 * SECOND)
        ledger.claimer = "w"
        return Admission(ledger, self.now, self.patience)

    def key(self, name: str) -> str:
        return Key(name, rate=name in self.rates).ident

    def job(self, id: str, *names: str, **fields: Any) -> Stored:
        """A scheduled job."""
        uses = canonical((Key(name, rate=name in self.rates), 1) for name in names)
        self.store.arrivals += 1
        job = Stored(NewJob(id, "t", uses=uses, **fields), self.store.arrivals, self.now, self.now)
        self.store.add(job)
        return job

    def arrive(self, id: str, *names: str, **fields: Any) -> Stored:
        """A job arrives in a step of its own."""
        job, admission = self.job(id, *names, **fields), self.admission()
        admission.arrive(job)
        admission.offer()
        return job

    def claim(self, job: Stored) -> bool:
        """A claim in a step of its own."""
        admission = self.admission()
        started = admission.claim(job)
        admission.offer()
        return started

    def end(self, job: Stored) -> None:
        """A running job ends in a step of its own."""
        admission = self.admission()
        admission.give_back([job])
        self.store.change(job, state=S.SUCCEEDED, expires_at=0)
        admission.offer()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_free_is_max_less_held(desk: Desk) -> None:
    desk.limit("A", 2)
    assert desk.admission().free(desk.key("A")) == 2
    desk.claim(desk.arrive("j", "A"))
    assert desk.admission().free(desk.key("A")) == 1


def test_free_of_a_lifted_key_is_without_end_and_of_a_closed_one_nothing(desk: Desk) -> None:
    desk.limit("A", None)
    desk.limit("B", 0)
    desk.rate("R", None)
    desk.rate("Q", 0)
    free = desk.admission().free
    assert [free(desk.key(name)) for name in "ABRQ"] == [UNLIMITED, 0, UNLIMITED, 0]


def test_a_newcomer_counts_as_offered_by_its_tightest_key(desk: Desk) -> None:
    desk.limit("A", 5)
    desk.limit("B", 1)
    desk.limit("C", 3)
    job = desk.arrive("j", "A", "B", "C")
    assert (job.state, job.offered_by) == (S.READY, desk.key("B"))


def test_a_newcomer_without_keys_is_offered_by_none(desk: Desk) -> None:
    job = desk.arrive("j")
    assert (job.state, job.offered_by) == (S.READY, None)


def test_newcomers_beyond_what_is_promised_park_at_once(desk: Desk) -> None:
    desk.limit("A", 2)
    jobs = [desk.arrive(f"j{number}", "A") for number in range(4)]
    assert [job.state for job in jobs] == [S.READY, S.READY, S.WAITING, S.WAITING]


def test_promises_in_one_queue_do_not_keep_another_queue_waiting(desk: Desk) -> None:
    desk.limit("A", 1)
    assert desk.arrive("x", "A", queue="x").state is S.READY
    assert desk.arrive("y", "A", queue="y").state is S.READY


def test_a_newcomer_queues_behind_those_whom_a_slot_of_this_step_is_due(desk: Desk) -> None:
    desk.limit("A", 1)
    running, waiting = desk.arrive("running", "A"), desk.arrive("waiting", "A")
    desk.claim(running)
    newcomer, admission = desk.job("newcomer", "A"), desk.admission()
    admission.give_back([running])
    desk.store.change(running, state=S.SUCCEEDED, expires_at=0)
    admission.arrive(newcomer)
    admission.offer()
    assert (waiting.state, newcomer.state) == (S.READY, S.WAITING)


def test_a_claim_takes_every_key_or_none(desk: Desk) -> None:
    desk.limit("A", 1)
    desk.limit("B", 1)
    desk.rate("R", 1)
    first, second = desk.arrive("first", "A", "B", "R"), desk.arrive("second", "B")
    assert desk.claim(first)
    assert set(desk.store.held_by["first"]) == {desk.key("A"), desk.key("B")}
    assert desk.admission().free(desk.key("R")) == 0
    assert not desk.claim(second)
    assert "second" not in desk.store.held_by


def test_a_refused_claim_spends_no_token(desk: Desk) -> None:
    desk.limit("A", 1)
    desk.rate("R", 1)
    job = desk.arrive("j", "A", "R")
    desk.limit("A", 0)
    assert not desk.claim(job)
    assert desk.admission().free(desk.key("R")) == 1
    assert (job.state, job.waiting_on) == (S.WAITING, desk.key("A"))


def test_a_release_offers_the_first_waiter_of_each_queue(desk: Desk) -> None:
    desk.limit("A", 1)
    running = desk.arrive("running", "A")
    desk.claim(running)
    jobs = [desk.arrive(f"{queue}{number}", "A", queue=queue) for queue in "xy" for number in (1, 2)]
    desk.end(running)
    assert [job.id for job in jobs if job.state is S.READY] == ["x1", "y1"]


def test_an_offer_reserves_nothing(desk: Desk) -> None:
    desk.limit("A", 1)
    one, other = desk.arrive("one", "A", queue="x"), desk.arrive("other", "A", queue="y")
    assert desk.claim(other)
    assert not desk.claim(one), "the claim checks again"
    assert one.state is S.WAITING


def test_a_lifted_limit_is_offered_in_slices(desk: Desk) -> None:
    desk.limit("A", 0)
    jobs = [desk.arrive(f"j{number}", "A") for number in range(OFFER_MOST + 5)]
    desk.limit("A", None)
    admission = desk.admission()
    admission.touch(desk.key("A"))
    assert admission.offer() == OFFER_MOST
    assert desk.claim(jobs[0])
    assert [job.state for job in jobs].count(S.WAITING) == 0, "the next slice follows"


def test_offering_nothing_touched_does_nothing(desk: Desk) -> None:
    assert desk.admission().offer() == 0


def test_the_timer_of_a_rate_rings_when_the_heads_tokens_come(desk: Desk) -> None:
    desk.rate("R", 2, seconds=10)
    jobs = [desk.arrive(f"j{number}", "R") for number in range(4)]
    for job in jobs[:2]:
        desk.claim(job)
    assert desk.store.timers == {desk.key("R"): desk.now + 5 * SECOND}


def test_the_last_waiter_of_a_rate_takes_its_timer_along(desk: Desk) -> None:
    desk.rate("R", 1)
    first, second = desk.arrive("first", "R"), desk.arrive("second", "R")
    desk.claim(first)
    admission = desk.admission()
    admission.give_back([second])
    desk.store.change(second, state=S.CANCELLED, waiting_on=None, units=0, expires_at=0)
    admission.offer()
    assert desk.store.timers == {}


def test_only_refusals_by_another_key_than_the_offering_one_count(desk: Desk) -> None:
    desk.limit("A", 1)
    desk.limit("B", 1)
    job = desk.arrive("j", "A", "B")
    desk.limit("A", 0)
    assert not desk.claim(job)
    assert job.refusals == 0, "it was a newcomer"
    for max, refusals in ((1, 0), (1, 1)):
        desk.limit("A", max)
        admission = desk.admission()
        admission.touch(desk.key("A"))
        admission.offer()
        desk.limit("A" if refusals == 0 else "B", 0)
        assert not desk.claim(job)
        assert job.refusals == refusals


def test_a_job_refused_too_often_keeps_the_keys_before_the_refusing_one(desk: Desk) -> None:
    for name in "ABC":
        desk.limit(name, 1)
    desk.limit("B", 0)
    job = desk.arrive("j", "A", "B", "C")
    desk.store.change(job, refusals=desk.patience, state=S.READY, waiting_on=None, offered_by=desk.key("A"))
    assert not desk.claim(job)
    held = {key: holding.reserved for key, holding in desk.store.held_by["j"].items()}
    assert held == {desk.key("A"): True}
    desk.limit("B", 1)
    admission = desk.admission()
    admission.touch(desk.key("B"))
    admission.offer()
    assert desk.claim(job)
    assert {holding.reserved for holding in desk.store.held_by["j"].values()} == {False}


def test_a_rate_wait_reserves_nothing_however_often_it_was_refused(desk: Desk) -> None:
    desk.limit("A", 1)
    desk.rate("R", 0)
    job = desk.arrive("j", "A", "R")
    desk.store.change(job, refusals=99, state=S.READY, waiting_on=None, offered_by=desk.key("A"))
    assert not desk.claim(job)
    assert "j" not in desk.store.held_by


def test_a_claim_of_many_stops_after_its_bound_and_says_so(desk: Desk) -> None:
    jobs = [desk.arrive(f"j{number}") for number in range(LOOK_MORE + 50)]
    desk.limit("task:t", 0)
    admission = desk.admission()
    more = admission.claim_many(
        1, {"t"}, lambda most, _: [job for job in jobs if job.state is S.READY][:most]
    )
    assert more
    assert [job.state for job in jobs].count(S.WAITING) == LOOK_MORE + 1


def test_a_job_of_an_unknown_task_is_set_aside_and_its_offer_passes_on(desk: Desk) -> None:
    desk.limit("A", 1)
    foreign, next_one = desk.arrive("foreign", "A"), desk.arrive("next", "A")
    admission = desk.admission()
    found = iter([[foreign], []])
    assert not admission.claim_many(1, {"other"}, lambda *_: next(found))
    assert (foreign.state, foreign.set_aside, foreign.offered_by) == (S.READY, True, None)
    assert next_one.state is S.READY
