"""Workers of two releases on one Redis: each calls its own scripts over the same data, also in a rolling deploy."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from headgate import JobHandle
from tests.processes.conftest import Place
from tests.support.redis_servers import binary, shared
from tests.support.waiting import eventually

KINDS = [kind for kind in ("valkey", "redis6", "redis7") if binary(kind)]
OTHER_RELEASE = """
from headgate.engine.redis import scripts
ours = scripts.read
scripts.read = lambda folder, name: ours(folder, name) + "\\n-- of the release after\\n"
"""
CUSTOMERS = 8


def kept_scripts(kind: str) -> int:
    """How many libraries the server has, or scripts where it knows no functions."""
    with shared(kind).client() as client:
        if kind == "redis6":
            info: Any = client.info("memory")
            return int(info["number_of_cached_scripts"])
        libraries: Any = client.execute_command("FUNCTION", "LIST")
        return len(libraries)


@pytest.mark.slow(8)
@pytest.mark.parametrize("store_url", KINDS, indirect=True)
def test_a_rolling_deploy_under_load_keeps_every_limit(
    place: Place, until_done: Callable[..., None], request: pytest.FixtureRequest
):
    kind = request.node.callspec.params["store_url"]
    handles: list[JobHandle[Any]] = []

    def worked(pids: set[int]) -> bool:
        """More comes until these processes have ended jobs."""
        jobs = [task.job(n, 0.01) for n in range(CUSTOMERS) for task in (place.shop.visit, place.shop.load)]
        handles.extend(place.app.enqueue_many_sync(jobs))
        return pids <= {line.pid for line in place.record.lines("end")}

    old = [place.worker(concurrency=4, lease=3) for _ in range(2)]
    before = kept_scripts(kind)
    eventually(lambda: worked({child.pid for child in old}), "the old release to work", 30, every=0.05)
    new = [place.worker(before=OTHER_RELEASE, concurrency=4, lease=3) for _ in range(2)]
    assert kept_scripts(kind) > before, "the new release has scripts of its own"
    eventually(lambda: worked({child.pid for child in new}), "both releases to work", 30, every=0.05)
    place.kill(old[0])
    worked(set())
    old[1].signal(signal.SIGTERM)
    worked(set())
    until_done()
    overlaps = place.record.overlaps(place.killed)
    assert overlaps.pop("dock") <= 4
    assert overlaps == {f"customer={n}": 1 for n in range(CUSTOMERS)}
    assert set(place.record.jobs("end")) == {handle.id for handle in handles}
    assert place.app.count_sync(state="succeeded") == len(handles)
