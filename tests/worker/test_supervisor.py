"""Real processes under a real supervisor; they report through a named pipe, so that nothing here sleeps and hopes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headgate import App
from headgate.worker import registrations
from headgate.worker.process import child as child_module
from headgate.worker.process import supervisor as module
from headgate.worker.process.config import CANNOT_START, RELOAD, ProcessConfig
from headgate.worker.process.reload import Reloader, source_files, wait_for_change
from headgate.worker.process.supervisor import Child, Supervisor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and named pipes")

APP = """
import os
from headgate.engine.memory import MemoryEngine
from headgate.worker import Worker

VERSION = 1

def say(*words):
    fd = os.open(os.environ["REPORTS"], os.O_WRONLY)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)

class FakeApp:
    async def run_worker(self, *, signals, **options):
        worker = Worker(MemoryEngine(), {}, **options)
        worker.on_event.append(self.tell)
        await worker.run(signals=signals)

    def tell(self, event):
        if event.kind in ("registered", "stopped"):
            say(event.kind, os.getpid(), VERSION)

class DeafApp:
    async def run_worker(self, *, signals, **options):
        import asyncio, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("registered", os.getpid(), VERSION)
        await asyncio.Event().wait()

app = FakeApp()
deaf = DeafApp()
"""


class Reports:
    """What the children say."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)
        self._text = b""

    def next(self) -> list[str]:
        """The next line's words."""
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._fd], [], [], 30)
            assert ready, "no child reported in time"
            self._text += os.read(self._fd, 4096)
        line, _, self._text = self._text.partition(b"\n")
        return line.decode().split()

    def several(self, count: int, kind: str) -> set[int]:
        """The pids of so many reports, all of one kind."""
        lines = [self.next() for _ in range(count)]
        assert {line[0] for line in lines} == {kind}
        return {int(line[1]) for line in lines}


@pytest.fixture
def reports(tmp_path, monkeypatch) -> Reports:
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.setenv("REPORTS", str(tmp_path / "reports"))
    return Reports(tmp_path / "reports")


@pytest.fixture
def config(tmp_path) -> ProcessConfig:
    return ProcessConfig(target="shop:app", app_dir=str(tmp_path), processes=2, log_level="warning")


class Running:
    """A supervisor at work in a thread."""

    def __init__(self, config: ProcessConfig) -> None:
        self.supervisor = Supervisor(config)
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.code = self.supervisor.run()

    def stop(self) -> int | None:
        self.supervisor.stop()
        return self.wait()

    def wait(self) -> int | None:
        self._thread.join(30)
        return self.code


@pytest.fixture
def running(reports: Reports, config: ProcessConfig) -> Iterator[Running]:
    running = Running(config)
    yield running
    running.supervisor.stop()
    running.supervisor.stop()
    running.wait()


def test_children_start_together_and_stop_together(reports: Reports, running: Running):
    pids = reports.several(2, "registered")
    assert pids == set(running.supervisor.pids)
    assert running.stop() == 0
    assert reports.several(2, "stopped") == pids


def test_a_child_that_dies_is_started_again_and_the_others_are_left_alone(reports: Reports, running: Running):
    pids = reports.several(2, "registered")
    victim, survivor = sorted(pids)
    os.kill(victim, signal.SIGKILL)
    (newcomer,) = reports.several(1, "registered")
    assert set(running.supervisor.pids) == {survivor, newcomer}


def test_a_supervisor_whose_first_children_cannot_start_says_so(reports: Reports, config: ProcessConfig):
    assert Running(msgspec.structs.replace(config, target="shop:missing")).wait() == CANNOT_START


def test_children_that_do_not_hear_are_killed_after_the_second_signal(
    reports: Reports, config: ProcessConfig, monkeypatch
):
    monkeypatch.setattr(module, "KILL_AFTER", 0.05)
    running = Running(msgspec.structs.replace(config, target="shop:deaf", processes=1))
    reports.several(1, "registered")
    running.supervisor.stop()
    assert running.stop() == 0


def start_process(config: ProcessConfig) -> subprocess.Popen[bytes]:
    code = "import sys, msgspec; from headgate.worker.process import config, supervisor; "
    code += "sys.exit(supervisor.supervise(msgspec.json.decode(sys.argv[1], type=config.ProcessConfig)))"
    return subprocess.Popen([sys.executable, "-c", code, msgspec.json.encode(config).decode()])


def test_a_signal_to_the_supervisor_stops_its_children(reports: Reports, config: ProcessConfig):
    process = start_process(config)
    pids = reports.several(2, "registered")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert reports.several(2, "stopped") == pids


def test_children_do_not_outlive_a_supervisor_that_was_killed(reports: Reports, config: ProcessConfig):
    process = start_process(config)
    pids = reports.several(2, "registered")
    process.kill()
    process.wait(30)
    assert reports.several(2, "stopped") == pids


def test_a_child_is_started_anew_when_its_code_changes_also_after_an_error(
    reports: Reports, config: ProcessConfig, tmp_path
):
    running = Running(msgspec.structs.replace(config, processes=1, reload=True))
    source = tmp_path / "shop.py"
    assert reports.next()[2] == "1"
    source.write_text("this is no Python")
    assert reports.next()[0] == "stopped"
    source.write_text(APP.replace("VERSION = 1", "VERSION = 22"))
    assert reports.next()[::2] == ["registered", "22"]
    assert running.stop() == 0


def test_a_child_that_worked_for_a_while_is_started_again_soon():
    child = Child(0)
    assert [child.next_wait(1.0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert child.next_wait(100.0) == 0.5


def test_each_child_has_a_name_of_its_own(config: ProcessConfig):
    named = msgspec.structs.replace(config, name="mail")
    assert [named.for_child(index).name for index in range(2)] == ["mail-1", "mail-2"]
    assert named.for_child(0).processes == 1


def test_a_worker_process_that_cannot_load_its_app_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(child_module, "configure_logs", lambda *args, **kwargs: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert child_module.work(ProcessConfig(target="nowhere_at_all", app_dir=str(tmp_path))) == CANNOT_START
    assert RELOAD != CANNOT_START


def test_the_reloader_sees_changed_files(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("1")
    reloader = Reloader()
    assert reloader.changes([str(file)]) == []
    os.utime(file, (1, 1))
    assert reloader.changes([str(file)]) == [str(file)]


def test_waiting_for_a_change_ends_when_a_file_comes(tmp_path):
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.py").write_text("")
    assert source_files(str(tmp_path)) == []
    waiting = threading.Thread(target=wait_for_change, args=(str(tmp_path), 0.005))
    waiting.start()
    while waiting.is_alive():
        (tmp_path / f"{time.monotonic_ns()}.py").write_text("")
        waiting.join(0.02)


def test_what_a_process_noted_names_its_store_and_the_workers_that_did_not_retire(tmp_path, monkeypatch):
    monkeypatch.setattr(registrations, "_file", None)
    with (tmp_path / "notes").open("w+b") as file:
        registrations.note_begin("before it has a file")
        registrations.keep_in(file.fileno())
        registrations.note_store(App("sqlite:///jobs.db"))
        registrations.note_store(object())
        for worker in ("a", "b", "c"):
            registrations.note_begin(worker)
        registrations.note_end("b")
        registrations.note_left("c")
        os.write(file.fileno(), b'{"type":"begun","wor')  # it died while it wrote
        notes = registrations.read_notes(file.fileno())
    assert notes.store is not None
    assert notes.store.url == "sqlite:///jobs.db"
    assert (notes.workers, notes.left) == (["a", "c"], ["c"])


DOWN = """
import os
from headgate import EngineUnavailable

def say(*words):
    fd = os.open(os.environ["REPORTS"], os.O_WRONLY)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)

class App:
    tries = 0

    async def run_worker(self, *, signals, **options):
        App.tries += 1
        say("try", os.getpid(), App.tries)
        if App.tries < 3:
            raise EngineUnavailable("the database is down")

app = App()
"""


def test_children_wait_for_a_store_that_is_down_when_they_start(
    reports: Reports, config: ProcessConfig, tmp_path
):
    (tmp_path / "down.py").write_text(DOWN)
    running = Running(msgspec.structs.replace(config, target="down:app"))
    words = [reports.next() for _ in range(6)]
    assert sorted(word[2] for word in words) == ["1", "1", "2", "2", "3", "3"]
    assert len({word[1] for word in words}) == 2, "in the same processes"
    assert running.stop() == 0
