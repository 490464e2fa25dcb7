"""The same comparison of two engines with limits that drop, replace and refuse, slots with a size, costs that are known
afterwards, throttled keys, numbers per key, and fair shares."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from headgate.clock import SECOND
from headgate.engine.contract import Limit, Report, Spent, Throttled
from headgate.job import JobState, NewJob
from tests.model import flow_vocabulary as words
from tests.model.pair import KEYS, Pair
from tests.model.test_two_engines import EXPLORING, SETTINGS, TwoEngines
from tests.model.vocabulary import FIRST_LIMITS, QUEUES, SERVED, WORKER_IDS, WORKERS
from tests.support.servers import SERVERS

pytestmark = pytest.mark.slow(15)


class FlowControl(TwoEngines):
    """Every command of the other machine, and those of flow control."""

    def opened(self) -> Pair:
        return Pair("memory", self.rival, [*KEYS, *words.KEYS], lambda engine: {"shares": engine.shares()})

    @initialize()
    def begin(self) -> None:
        for limit in (*FIRST_LIMITS, *words.LIMITS):
            self.judge.declared[limit.name] = limit
        self.do(lambda engine: engine.declare([*FIRST_LIMITS, *words.LIMITS], now=self.now))
        for worker in WORKERS:
            self.register(worker)

    @rule(jobs=st.lists(words.jobs(), min_size=1, max_size=4))
    def enqueue_flow(self, jobs: list[NewJob]) -> None:
        self.do(lambda engine: engine.enqueue(jobs, now=self.now))

    @rule(limit=words.limits())
    def declare_flow(self, limit: Limit) -> None:
        self.do(lambda engine: engine.declare([limit], now=self.now))
        self.judge.declared[limit.name] = limit

    @rule(
        data=st.data(),
        worker=st.sampled_from(WORKER_IDS),
        want=st.sampled_from([0, 1, 3]),
        served=st.sampled_from(SERVED),
    )
    def report_flow(self, data: st.DataObject, worker: str, want: int, served: list[str] | None) -> None:
        """Attempts say what they spent, or were throttled, and maybe both."""
        reports: list[Report] = []
        for view in self.snapshot.jobs if self.snapshot else ():
            if view.state is JobState.RUNNING and view.worker == worker and data.draw(st.booleans()):
                if data.draw(st.booleans()):
                    name = data.draw(st.sampled_from(words.RATES))
                    reports.append(Spent(view.id, view.attempt, name, data.draw(st.integers(0, 6))))
                if data.draw(st.booleans()):
                    name = data.draw(st.sampled_from([None, *"ESGNV"]))
                    delay = data.draw(st.sampled_from([SECOND // 2, 3 * SECOND]))
                    reports.append(Throttled(view.id, view.attempt, delay, name))
        self._exchange(worker, reports, want, served)

    @rule(data=st.data())
    def set_share(self, data: st.DataObject) -> None:
        weight = data.draw(words.weights(self.now))
        self.do(lambda engine: engine.set_share(weight, now=self.now))

    @rule(share=st.sampled_from(words.SHARES))
    def clear_share(self, share: str) -> None:
        self.do(lambda engine: engine.clear_share(share, now=self.now))

    @rule(data=st.data())
    def declare_shares(self, data: st.DataObject) -> None:
        weight = data.draw(words.weights(self.now))
        self.do(lambda engine: engine.declare_shares([weight], now=self.now))

    @rule(number=st.integers(1, 4), seen=st.integers(1, 4))
    def learn(self, number: int, seen: int) -> None:
        self.do(lambda engine: engine.learn(words.ADAPTIVE, number, seen=seen, reason="tried", now=self.now))

    @rule(queue=st.sampled_from(QUEUES), most=st.integers(4, 12))
    def run_shares(self, queue: str, most: int) -> None:
        """What starts in a shared queue, one after the other."""
        self.run_one_after_the_other([queue], most)


@pytest.mark.timeout(0 if EXPLORING else 300)
@pytest.mark.parametrize("rival", sorted({*SERVERS} - {"memory"}))
def test_both_engines_agree_on_flow_control(rival: str) -> None:
    machine = type(f"Flow_of_memory_and_{rival}", (FlowControl,), {"rival": rival})
    case = machine.TestCase
    case.settings = SETTINGS
    case().runTest()


@pytest.mark.timeout(0 if EXPLORING else 300)
def test_the_memory_engine_agrees_with_itself_and_the_audit_and_the_judge() -> None:
    machine = type("Flow_of_memory", (FlowControl,), {"rival": "memory"})
    case = machine.TestCase
    case.settings = SETTINGS
    case().runTest()
