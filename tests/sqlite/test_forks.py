"""A process that forks while the file is open: the child goes on with connections of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate.engine.sqlite import SqliteEngine
from headgate.job import JobState
from tests.support.child import Child

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")

# Each script is a fresh process: a fork of the test's own would carry its loops and threads along.
BEGIN = """
import warnings
warnings.simplefilter("ignore")

engine = SqliteEngine(sys.argv[1])
do = asyncio.run
do(engine.open())
do(engine.declare([Limit("A", "concurrency", 1)]))
do(engine.enqueue([NewJob(id="parent", task="t")]))

def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            say(repr(error))
            os._exit(1)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

CLAIM = """
def work():
    do(engine.enqueue([NewJob(id="child", task="t")]))
    do(engine.register(Worker("c", frozenset({"t"}))))
    answer = do(engine.exchange("c", [], 10))
    assert [a.job for a in answer.attempts] == ["parent", "child"], answer
    answer = do(engine.exchange("c", [Succeeded("parent", 1), Succeeded("child", 1)], 0))
    assert answer.refused == ()
    do(engine.retire("c"))
    do(engine.close())

code = ended(fork(work))
do(engine.enqueue([NewJob(id="later", task="t")]))
say(code, [str(s) for s in do(engine.states(["parent", "child", "later"]))])
do(engine.close())
"""

PARENT_CLOSES_FIRST = """
read, write = os.pipe()

def work():
    do(engine.enqueue([NewJob(id="one", task="t")]))
    os.read(read, 1)
    do(engine.enqueue([NewJob(id="two", task="t")]))

pid = fork(work)
while do(engine.states(["one"])) == [None]:
    time.sleep(0.005)
do(engine.close())
os.write(write, b"x")
say(ended(pid))
"""

UNDER_LOAD = """
stop = threading.Event()
stored = []

def load(name):
    async def main():
        n = 0
        while not stop.is_set():
            await asyncio.gather(*(engine.enqueue([NewJob(id=f"{name}-{n}-{k}", task="t")]) for k in range(10)))
            stored.extend(f"{name}-{n}-{k}" for k in range(10))
            n += 1
    asyncio.run(main())

threads = [threading.Thread(target=load, args=(f"t{n}",)) for n in range(2)]
watching = engine.watch_work(lambda: None)
for thread in threads:
    thread.start()

codes = []
for number in range(10):
    def work():
        do(engine.enqueue([NewJob(id=f"child-{number}", task="t")]))
    codes.append(ended(fork(work)))
stop.set()
for thread in threads:
    thread.join()
ids = stored + [f"child-{n}" for n in range(10)]
missing = [id for id, state in zip(ids, do(engine.states(ids))) if state is None]
say(codes, missing, len(stored) > 0)
do(engine.close())
"""

APP = """
import warnings
warnings.simplefilter("ignore")
from headgate import App

app = App(f"sqlite:///{sys.argv[1]}")

@app.task
async def double(n: int) -> int:
    return n * 2

first = double.enqueue_sync(1)
pid = os.fork()
if pid == 0:
    try:
        handle = double.enqueue_sync(2)
        app.run_until_idle_sync()
        os._exit(0 if handle.result_sync(timeout=10) == 4 else 1)
    except BaseException as error:
        say(repr(error))
        os._exit(2)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
third = double.enqueue_sync(3)
app.run_until_idle_sync()
say(code, first.result_sync(timeout=10), third.result_sync(timeout=10), app.audit_sync().ok)
app.close_sync()
"""


def run(script: str, path: Path) -> object:
    """What the script says; it must then end well."""
    with Child(script, path) as child:
        said = child.hear()
        assert child.wait() == 0
    return said


async def test_a_forked_child_enqueues_claims_and_settles_and_the_parent_goes_on(path: Path):
    assert run(BEGIN + CLAIM, path) == [0, ["succeeded", "succeeded", "ready"]]


async def test_what_a_forked_child_stored_survives_the_parents_closing(path: Path, engine: SqliteEngine):
    await engine.close()  # the forking process is then the only one that has the file open
    assert run(BEGIN + PARENT_CLOSES_FIRST, path) == 0
    assert await engine.states(["parent", "one", "two"]) == [JobState.READY] * 3


@pytest.mark.slow
async def test_forks_in_the_middle_of_a_busy_process_lose_nothing(path: Path, engine: SqliteEngine):
    codes, missing, busy = run(BEGIN + UNDER_LOAD, path)  # pyright: ignore[reportGeneralTypeIssues]
    assert codes == [0] * 10
    assert missing == []
    assert busy


def test_an_app_works_in_a_forked_child_and_in_its_parent(path: Path):
    assert run(APP, path) == [0, 2, 6, True]
