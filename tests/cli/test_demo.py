"""The demonstration: that its proof can fail, that its picture fits, and the whole of it in a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.request import urlopen

import pytest
from rich.console import Console

from headgate.cli.demo.journal import Entry
from headgate.cli.demo.picture import picture
from headgate.cli.demo.plain import PlainReport
from headgate.cli.demo.proof import Evidence, Run, largest_overlap, most_starts, prove
from headgate.cli.demo.scene import CustomerRows, Event, Scene, ShownWorker
from headgate.cli.demo.workload import API_SLOTS, MAILS, TOTAL, orders
from tests.support.command_line import COMMAND, Headgate

A, B = 1, 2


def entry(
    what: Any,
    job: str,
    at: float,
    *,
    attempt: int = 1,
    pid: int = A,
    customer: int = 0,
    task: str = "sync_orders",
) -> Entry:
    return Entry(what, job, attempt, pid, task, customer, 0, at, at)


def run(start: float, end: float | None) -> Run:
    return Run(entry("start", "j", start), end, "end" if end is not None else "open")


def good() -> list[Entry]:
    """All API slots used by as many customers; one job fails once; worker B is killed at 5 with a job running."""
    entries: list[Entry] = []
    for n in range(API_SLOTS):
        entries += [entry("start", f"j{n}", 1, customer=n), entry("end", f"j{n}", 2, customer=n)]
    entries += [
        entry("start", "mail", 1, customer=20, task="send_invoice"),
        entry("end", "mail", 2, customer=20),
    ]
    entries += [entry("start", "flaky", 3), entry("fail", "flaky", 4)]
    entries += [entry("start", "flaky", 5, attempt=2), entry("end", "flaky", 6, attempt=2)]
    entries += [entry("start", "cut", 4, pid=B, customer=1)]
    entries += [
        entry("start", "cut", 8, attempt=2, customer=1),
        entry("end", "cut", 9, attempt=2, customer=1),
    ]
    return entries


def failing(entries: list[Entry], **changed: Any) -> list[str]:
    ids = sorted({one.job for one in good()})
    facts: dict[str, Any] = {
        "entries": entries,
        "ids": ids,
        "kills": {B: 5.0},
        "states": dict.fromkeys(ids, "succeeded"),
        "problems": (),
    }
    return [claim.claim for claim in prove(Evidence(**facts | changed)) if not claim.holds]


def test_the_proof_accepts_what_is_right() -> None:
    assert failing(good()) == []


def test_two_at_once_for_a_customer_are_found() -> None:
    more = [entry("start", "x", 1.5), entry("end", "x", 1.7)]
    assert "one job at a time per customer" in failing(good() + more)


def test_a_run_of_a_killed_process_lasts_until_the_kill() -> None:
    more = [entry("start", "x", 4.5, customer=1), entry("end", "x", 4.6, customer=1)]
    assert "one job at a time per customer" in failing(good() + more)


def test_a_slot_too_many_and_a_slot_unused_are_found() -> None:
    more = [entry("start", "x", 1.5, customer=19), entry("end", "x", 1.7, customer=19)]
    assert failing(good() + more) == [f"at most {API_SLOTS} at once on the API"]
    fewer = [one for one in good() if one.job != "j7"]
    assert f"at most {API_SLOTS} at once on the API" in failing(fewer)


def test_a_mail_too_many_is_found() -> None:
    more = [entry("start", f"m{n}", 1 + n / 100, task="send_invoice", customer=n + 30) for n in range(MAILS)]
    more += [entry("end", f"m{n}", 2, customer=n + 30) for n in range(MAILS)]
    assert failing(good() + more) == [f"at most {MAILS} mails in any 1 s"]


def test_a_lost_job_is_found() -> None:
    assert "no job is lost" in failing(good(), ids=["never"])
    assert failing(good(), states={}) == ["no job is lost"]


def test_a_failure_that_stays_one_is_found() -> None:
    assert "what fails is tried again" in failing(
        [one for one in good() if (one.job, one.attempt) != ("flaky", 2)]
    )


def test_a_run_that_nobody_asked_for_is_found() -> None:
    more = [entry("start", "j0", 7, attempt=2), entry("end", "j0", 7.5, attempt=2)]
    assert failing(good() + more) == ["only what the kill cut off ran twice"]


def test_slots_that_come_back_late_are_found() -> None:
    late = [one for one in good() if (one.job, one.attempt) != ("cut", 2)]
    late += [entry("start", "cut", 30, attempt=2, customer=1), entry("end", "cut", 31, attempt=2, customer=1)]
    assert failing(late) == ["a dead worker's slots come back"]


def test_a_problem_of_the_audit_is_found() -> None:
    assert failing(good(), problems=("job x is forgotten",)) == ["the store fits together (audit)"]


def test_an_end_comes_before_a_start_at_the_same_instant() -> None:
    assert largest_overlap([run(1, 2), run(2, 3)]) == 1
    assert largest_overlap([run(1, 2.1), run(2, 3)]) == 2
    assert largest_overlap([run(1, None), run(9, 10)]) == 2


def test_a_window_is_open_at_its_end() -> None:
    assert most_starts([0, 0.5, 1.0], 1) == 2
    assert most_starts([0, 0.5, 0.99], 1) == 3
    assert most_starts([], 1) == 0


def test_the_work_is_the_same_every_time() -> None:
    assert orders() == orders()
    assert len(orders()) == TOTAL
    assert sum(order.fails for order in orders()) > 5


def scene() -> Scene:
    customers = CustomerRows()
    customers.add(entry("start", "a", 1, pid=B, customer=3))
    return Scene(
        seconds=5.0,
        customers=customers.cells(frozenset({B})),
        counts={"succeeded": 100, "waiting": 200, "ready": 1, "running": 10, "scheduled": 9, "failed": 0},
        api_held=8,
        api_waiting=100,
        mails=12,
        mails_waiting=50,
        retried=3,
        workers=(ShownWorker("A", 10, "working", 6), ShownWorker("B", 11, "killed", 1)),
        events=tuple(Event(n, f"event {n} " + "long " * 30, "bad") for n in range(9)),
    )


def test_the_picture_fits_a_small_terminal() -> None:
    console = Console(width=80, height=24, record=True, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(picture(scene(), 24))
    lines = console.export_text().splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for words in ("100 of 320 done", "✖", "8 of 8 held", "10 of 10 a second", "worker B killed", "event 8"):
        assert words in text
    console.file.close()


def test_lines_say_each_event_once() -> None:
    lines = PlainReport()
    first = lines.of(scene())
    assert sum("event" in line for line in first) == 9
    assert "done 100/320" in first[-1]
    assert lines.of(scene()) == []


def test_a_folder_that_is_not_empty_is_not_used(headgate: Headgate) -> None:
    (headgate.folder / "mine.txt").touch()
    outcome = headgate("demo", "--keep", str(headgate.folder))
    assert outcome.code == 2
    assert "not empty" in outcome.err


@pytest.mark.slow(15)
def test_the_demonstration_proves_its_claims_in_a_pipe(headgate: Headgate, tmp_path: Path) -> None:
    outcome = headgate.process("demo", "--keep", "kept", timeout=100)
    assert outcome.code == 0, outcome.out + outcome.err
    assert outcome.err == ""
    assert outcome.out.replace("\n", "").isprintable()
    for words in (
        "kill -9 of worker B",
        "lapsed",
        "all 320 jobs have ended",
        "320 of 320 ran",
    ):
        assert words in outcome.out
    assert outcome.out.count("✓") == 8
    assert "✗" not in outcome.out
    kept = f"sqlite:///{tmp_path / 'kept' / 'demo.db'}"
    assert headgate("jobs", "--state", "succeeded", "--count", "--url", kept).out == "320\n"
    assert headgate("audit", "--url", kept).code == 0


@pytest.mark.slow(15)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_demonstration_that_is_stopped_leaves_nothing_behind(headgate: Headgate) -> None:
    environment = headgate.environment(TMPDIR=str(headgate.folder))
    process = subprocess.Popen(
        [*COMMAND, "demo"], cwd=headgate.folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pids: list[int] = []
    for line in process.stdout:
        if "pids" in line:
            pids = [int(word) for word in line.partition("pids")[2].strip(" )\n").split(" and ")]
            break
    process.terminate()
    assert process.wait(60) != 0
    process.stdout.close()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert list(headgate.folder.iterdir()) == []


@pytest.mark.slow(15)
def test_the_demonstration_reports_to_programs(headgate: Headgate) -> None:
    outcome = headgate.process("demo", "--json", timeout=100)
    assert outcome.code == 0, outcome.out + outcome.err
    report = json.loads(outcome.out)
    assert list(report) == ["ok", "seconds", "claims"]
    assert all(list(claim) == ["claim", "found", "holds"] and claim["holds"] for claim in report["claims"])


@pytest.mark.slow(20)
def test_the_dashboard_stands_beside_it_and_stays_until_it_is_told_to_end(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--web", "--plain"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stderr.readline().partition(": ")[2].strip()
        with urlopen(address, timeout=30) as page:  # while it runs
            assert "Tightest keys" in page.read().decode()
        said = "".join(iter(process.stdout.readline, f"Look around at {address} (Ctrl-C ends it)\n"))
        assert "320 of 320 ran" in said
        with urlopen(f"{address}jobs?state=succeeded", timeout=30) as page:
            assert "sync_orders" in page.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        with pytest.raises(OSError, match="refused"):
            urlopen(address, timeout=30)
    finally:
        process.kill()
        process.communicate()
