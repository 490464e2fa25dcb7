"""kill -9 inside a checkpoint, with half of a page written into the file: the log still has all that was
acknowledged."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import apsw
import pytest

from headgate.engine.contract import Limit, Worker
from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState
from tests.sqlite.conftest import OpenEngine
from tests.support.child import Child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to tell one file from another")

DIES = """
import ctypes
import apsw
from headgate.engine.sqlite import checkpoints
from headgate.keys import Key, Use

checkpoints.LONG = 100
path, writes = sys.argv[1], int(sys.argv[2])
Write = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
pwrite = ctypes.CDLL(None, use_errno=True).pwrite64
pwrite.restype, pwrite.argtypes = Write._restype_, Write._argtypes_
left = writes

@Write
def dying_write(descriptor, data, size, offset):
    global left
    if os.readlink(f"/proc/self/fd/{descriptor}") == path:  # with a log, nothing but a checkpoint writes there
        left -= 1
        if left == 0:
            pwrite(descriptor, data, size // 2, offset)
            os.kill(os.getpid(), signal.SIGKILL)
    return pwrite(descriptor, data, size, offset)

async def main():
    engine = SqliteEngine(path)
    await engine.open()
    await engine.declare([Limit("A", "concurrency", 2)])
    await engine.register(Worker("w", frozenset({"t"})))
    assert apsw.VFS("dying", "unix").xSetSystemCall("pwrite64", ctypes.cast(dying_write, ctypes.c_void_p).value)
    number = 0
    while True:
        text, uses = '["' + "x" * 3000 + '"]', (Use(Key("A").ident),)
        jobs = [NewJob(f"{number}-{n}", "t", args=text, uses=uses) for n in range(5)]
        await engine.enqueue(jobs)
        claimed = await engine.exchange("w", [], 1)
        say([job.id for job in jobs], [each.job for each in claimed.attempts])
        reports = [Succeeded(each.job, each.number) for each in claimed.attempts]
        await engine.exchange("w", reports, 0)
        say([each.job for each in claimed.attempts], None)
        number += 1

asyncio.run(main())
"""


@pytest.mark.parametrize("writes", [1, 2, 9, 40, 60])
async def test_a_process_killed_inside_a_checkpoint_loses_nothing_that_was_acknowledged(
    path: Path, open_engine: OpenEngine, writes: int
):
    enqueued, ended = set[str](), set[str]()
    with Child(DIES, path, writes) as child:
        while (said := heard(child)) is not None:
            first, claimed = said
            if claimed is None:
                ended |= set(first)
            else:
                enqueued |= set(first)
        assert child.wait() == -9
    assert ended < enqueued
    assert not checkpointed(path), "the checkpoint was at its end"
    engine = await open_engine()
    assert check(path) == "ok"
    states = dict(zip(enqueued, await engine.states(sorted(enqueued)), strict=True))
    assert None not in states.values()
    assert await engine.states(sorted(ended)) == [JobState.SUCCEEDED] * len(ended)
    await go_on(engine)


def heard(child: Child) -> tuple[list[str], list[str] | None] | None:
    """What it says, until it dies."""
    try:
        return child.hear()
    except AssertionError:
        return None


def check(path: Path) -> str:
    """What SQLite itself says about its file."""
    connection = apsw.Connection(str(path))
    said = str(connection.pragma("integrity_check"))
    connection.close()
    return said


def checkpointed(path: Path) -> bool:
    """Whether the file is what it would be had the checkpoint come to its end."""
    whole = path.with_name("whole.db")
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{whole}{suffix}")
    connection = apsw.Connection(str(whole))
    connection.pragma("schema_version")  # a connection finds the log when it first reads
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path.read_bytes() == whole.read_bytes()


async def go_on(engine: SqliteEngine) -> None:
    """The dead worker's slots come back, and each job that is left may start, two at a time."""
    await engine.declare([Limit("A", "concurrency", 2)])
    await engine.report_lost(["w"])
    await engine.register(Worker("next", frozenset({"t"})))
    assert len((await engine.exchange("next", [], 100)).attempts) == 2
