"""The audit, and what a repair mends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec
import pytest

from headgate import App, AuditReport, ConcurrencyLimit
from headgate.app.audit import find_problems, repair
from headgate.engine.contract import Part, Rechecked, Snapshot
from headgate.engine.memory import MemoryEngine
from headgate.engine.memory.store import Holding
from headgate.job import JobState

EMPTY = Snapshot((), {}, {}, {}, frozenset(), 0)
SLOT = msgspec.structs.replace(EMPTY, holders={"c0:A": {"j1": False}})
OTHER = msgspec.structs.replace(EMPTY, holders={"c0:B": {"j1": False}})


def torn(snapshot: Snapshot) -> Snapshot:
    return msgspec.structs.replace(snapshot, torn=True)


class Shown:
    """A store that shows one snapshot after the other."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.left = list(snapshots)

    async def snapshot(self) -> Snapshot:
        return self.left.pop(0)


@pytest.mark.parametrize(
    ("snapshots", "found", "unread"),
    [
        ([EMPTY, SLOT], [], 1),
        ([SLOT, EMPTY], ["A"], 1),
        ([torn(EMPTY), SLOT], [], 1),
        ([torn(SLOT), EMPTY], [], 0),
        ([torn(SLOT), torn(EMPTY), SLOT], [], 1),
        ([torn(SLOT), torn(OTHER), SLOT], [], 1),
        ([torn(SLOT), OTHER], ["B"], 0),
        ([torn(SLOT)] * 9, ["A"], 4),
    ],
)
async def test_what_a_torn_snapshot_shows_counts_only_if_others_show_it_too(
    snapshots: Sequence[Snapshot], found: list[str], unread: int
):
    store = Shown(*snapshots)
    problems = await find_problems(store)  # pyright: ignore[reportArgumentType]
    assert [problem.partition("'")[2][0] for problem in problems] == found
    assert len(store.left) == unread


class Slices:
    """A part whose slices are given."""

    def __init__(self, name: str, *slices: Rechecked) -> None:
        self.name = name
        self.slices = list(slices)
        self.asked: list[str | None] = []

    async def recheck(self, after: str | None = None) -> Rechecked:
        self.asked.append(after)
        return self.slices.pop(0)


async def test_a_repair_goes_through_every_slice_of_every_part():
    first = Slices("p0", Rechecked(("x",), "k1"), Rechecked((), "k2"), Rechecked(("y",), None))
    second = Slices("", Rechecked(("z",), None))

    class Store:
        def parts(self) -> Sequence[Part]:
            return first, second  # pyright: ignore[reportReturnType]

    seen: list[int] = []
    assert await repair(Store(), seen.append) == ("p0: x", "p0: y", "z")  # pyright: ignore[reportArgumentType]
    assert first.asked == [None, "k1", "k2"]
    assert seen == [1, 2, 3, 4]


async def test_a_repair_of_a_store_without_faults_mends_nothing(app: App):
    @app.task
    async def work(key: Annotated[int, ConcurrencyLimit(1)]) -> None: ...

    jobs = await app.enqueue_many(work.job(n % 7) for n in range(250))
    seen: list[int] = []
    assert await app.audit(repair=True, progress=seen.append) == AuditReport(())
    assert seen == list(range(1, len(seen) + 1))
    await app.run_until_idle()
    assert {await job.status() for job in jobs} == {"succeeded"}


@pytest.fixture
async def spoilt() -> AsyncIterator[tuple[App, Any]]:
    """A store in memory with a slot that no attempt holds; a job waits for it."""
    app = App("memory://")

    @app.task
    async def work(key: Annotated[int, ConcurrencyLimit(1, scope="key")]) -> None: ...

    first, second = await work.enqueue(1), await work.enqueue(1)
    engine = await app._client.engine()  # pyright: ignore[reportPrivateUsage]
    assert isinstance(engine, MemoryEngine)
    store = engine._store  # pyright: ignore[reportPrivateUsage]
    await first.cancel()
    store.hold("c0:key=1", Holding(store.jobs[first.id], 0, 1, False))
    store.change(
        store.jobs[second.id],
        state=JobState.WAITING,
        waiting_on="c0:key=1",
        offered_by=None,
        units=1,
        refusals=0,
    )
    store.undo.clear()
    yield app, second
    await app.close()


async def test_a_repair_mends_what_the_audit_complains_of(spoilt: tuple[App, Any]):
    app, waiting = spoilt
    before = await app.audit()
    assert not before.ok
    assert before.repaired == ()
    report = await app.audit(repair=True)
    assert report.ok
    assert [one.rpartition(": ")[2] for one in report.repaired] == [
        "the slot was given back",
        "it was offered",
    ]
    await app.run_until_idle()
    assert await waiting.status() == "succeeded"


def test_the_audit_and_its_repair_have_a_sync_twin(app: App):
    assert app.audit_sync(repair=True).ok
