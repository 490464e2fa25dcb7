"""Processes of a pool end with their worker, however that ends, and programs of every kind can have a pool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import App, JobFailed
from tests.support.child import ROOT
from tests.support.waiting import eventually
from tests.support.worker_command import worker_command

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX only"), pytest.mark.slow(10)]

SHOP = """
import ctypes, os, time
from pathlib import Path
from headgate import App, current_job

if os.environ.get("BROKEN") and "HEADGATE_POOL_PROCESS" in os.environ:
    raise ImportError("not in this process")

app = App(os.environ["HEADGATE_URL"])

@app.task(run_in="process")
def spin(path: str, hold: bool = False) -> None:
    Path(path + ".new").write_text(f"{os.getpid()} {os.getppid()}")
    os.rename(path + ".new", path)
    if hold:
        ctypes.PyDLL(None).sleep(600)
    while True:
        pass

@app.task(run_in="process")
def work(path: str) -> str:
    Path(path + ".new").write_text(f"{os.getpid()} {os.getppid()}")
    os.rename(path + ".new", path)
    while not Path(path + ".go").exists():
        time.sleep(0.01)
    return "done"
"""

PROGRAM = """
import asyncio, os
from headgate import App

app = App(os.environ["HEADGATE_URL"])

@app.task(run_in="process")
def where() -> int:
    return os.getpid()

async def main():
    async with app, app.worker(pool_processes=1):
        print(await (await where.enqueue()).result(timeout=30) != os.getpid())

GUARD
    asyncio.run(main())
"""


class Place:
    """A store, and jobs of the shop in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"

    def enqueue(self, task: str, *args: object) -> str:
        """Enqueue a job from another process, which need not have the task."""
        code = "import json, sys, worked_shop as s; args = json.loads(sys.argv[2]); "
        code += "print(s.app.tasks[sys.argv[1]].enqueue_sync(*args).id)"
        return self.run(code, task, json.dumps(args)).strip()

    def run(self, code: str, *words: str) -> str:
        """The output of a small program."""
        environment = {**os.environ, "HEADGATE_URL": self.url, "PYTHONPATH": f"{self.folder}:{ROOT}"}
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    def processes(self, name: str) -> tuple[int, int]:
        """The process that a job runs in, and its worker's."""
        path = self.folder / name
        pid, parent = eventually(lambda: path.exists() and path.read_text().split(), "the job to begin")
        return int(pid), int(parent)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "worked_shop.py").write_text(SHOP)
    return Place(tmp_path)


def gone(pid: int) -> Callable[[], bool]:
    """Whether a process is gone; one that nothing has waited for yet is."""

    def look() -> bool:
        try:
            return " Z " in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        except OSError:
            return True

    return look


@pytest.mark.parametrize(
    "hold", [False, True], ids=["a task that computes", "a task that holds the interpreter"]
)
def test_a_worker_that_is_killed_leaves_no_process_behind(place: Place, hold: bool):
    with worker_command(place.folder, SHOP, place.url) as command:
        place.enqueue("spin", str(place.folder / "pid"), hold)
        pid, parent = place.processes("pid")
        assert parent == command.process.pid
        command.process.kill()
        eventually(gone(pid), "the process of the pool to end")


def test_an_idle_process_of_a_killed_worker_ends_too(place: Place):
    with worker_command(place.folder, SHOP, place.url) as command:
        (place.folder / "pid.go").touch()
        place.enqueue("work", str(place.folder / "pid"))
        pid, _ = place.processes("pid")
        command.process.kill()
        eventually(gone(pid), "the process of the pool to end")


def test_the_job_of_a_child_that_is_killed_is_lost_with_it_and_runs_again(place: Place):
    with worker_command(
        place.folder, SHOP, place.url, "--processes", "2", "--pool-processes", "1"
    ) as command:
        id = place.enqueue("work", str(place.folder / "pid"))
        pid, parent = place.processes("pid")
        os.remove(place.folder / "pid")
        os.kill(parent, signal.SIGKILL)
        eventually(gone(pid), "the process of the pool to end")
        (place.folder / "pid.go").touch()
        place.processes("pid")
        with App(place.url) as app:
            assert app.job_sync(id).result_sync(timeout=30) == "done"
            assert [one.outcome for one in app.job_sync(id).info_sync().attempts] == ["lost", "succeeded"]
            assert app.audit_sync().ok
        assert command.stop() == 0


def test_a_signal_to_all_processes_lets_the_pool_finish_within_the_grace(place: Place):
    with worker_command(place.folder, SHOP, place.url) as command:
        id = place.enqueue("work", str(place.folder / "pid"))
        pid, _ = place.processes("pid")
        os.kill(pid, signal.SIGTERM)  # as a service manager does that stops a whole group
        command.process.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping" in command.logged, "the worker to hear it")
        (place.folder / "pid.go").touch()
        assert command.process.wait(30) == 0
        with App(place.url) as app:
            assert app.job_sync(id).result_sync(timeout=5) == "done"
        assert gone(pid)()


def test_an_app_that_cannot_be_loaded_in_the_pool_says_why(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BROKEN", "yes")
    with worker_command(place.folder, SHOP, place.url) as command:
        id = place.enqueue("work", str(place.folder / "pid"))
        with (
            App(place.url) as app,
            pytest.raises(JobFailed, match=r"cannot load the app: (.|\n)*not in this process"),
        ):
            app.job_sync(id).result_sync(timeout=30)
        assert command.stop() == 0


@pytest.mark.parametrize("how", ["file", "module"])
def test_a_program_with_a_worker_of_its_own_has_a_pool(tmp_path: Path, how: str):
    (tmp_path / "own_program.py").write_text(PROGRAM.replace("GUARD", 'if __name__ == "__main__":'))
    command = ["own_program.py"] if how == "file" else ["-m", "own_program"]
    done = run(tmp_path, *command)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_a_program_that_starts_its_worker_when_it_is_imported_is_told(tmp_path: Path):
    (tmp_path / "own_program.py").write_text(PROGRAM.replace("GUARD", "if True:"))
    done = run(tmp_path, "own_program.py")
    assert done.returncode == 1
    assert "put what starts yours under `if __name__ == '__main__':`" in done.stderr


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADGATE_URL": f"sqlite:///{folder}/jobs.db", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
