"""The example workers in other languages: they drain jobs under limits, and note themselves how many overlap."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from headgate.limits.imported import ImportLimit
from headgate.testing.plugin import AppFactory
from tests.support.child import ROOT
from tests.support.node import node
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually
from tests.support.web_server import web_server

pytestmark = [
    pytest.mark.slow(8),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
    pytest.mark.parametrize("languages", [("js",), ("py",), ("js", "py")], ids="-".join),
]
PER_SITE, IN_ALL, JOBS = 2, 5, 60
TOKEN = "the-secret-of-the-workers"


@pytest.fixture
def app(tmp_path: Path, headgate_app: AppFactory) -> App:
    return headgate_app(url=f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """What the workers print, in the order in which it happened: they append to one file."""
    return tmp_path / "journal"


@contextmanager
def worker(language: str, port: int, folder: Path, journal: Path) -> Generator[subprocess.Popen[bytes]]:
    program = [node()] if language == "js" else [sys.executable, "-I"]
    environment = {"HEADGATE_API": f"http://127.0.0.1:{port}/api/v1", "HEADGATE_TOKEN": TOKEN}
    with journal.open("ab") as printed, (folder / "errors").open("ab") as errors:
        process = subprocess.Popen(
            [*program, str(ROOT / "examples" / f"http_worker.{language}")],
            stdout=printed,
            stderr=errors,
            env={"PATH": os.environ["PATH"], **environment},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)


def enqueue(app: App, most: int = JOBS) -> list[Any]:
    limits = [
        [ImportLimit(name="site", max=PER_SITE, key=f"s{n % 3}"), ImportLimit(name="renderer", max=IN_ALL)]
        for n in range(most)
    ]
    jobs = [
        app.raw_job("render", {"page": n, "site": f"s{n % 3}"}, limits=limits[n], timeout=60)
        for n in range(most)
    ]
    return app.enqueue_many_sync(jobs)


def noted(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


def overlap(events: list[dict[str, Any]]) -> tuple[int, int]:
    """How many ran at once at most: of one site, and in all."""
    now, most = Counter[str](), Counter[str]()
    for event in events:
        step = 1 if "began" in event else -1
        for key in ("all", event["args"]["site"]):
            now[key] += step
            most[key] = max(most[key], now[key])
    return max(count for key, count in most.items() if key != "all"), most["all"]


def doubts(folder: Path) -> int:
    return (folder / "errors").read_text().count("in doubt")


def end(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    return [process.wait(PATIENCE) for process in processes]


@contextmanager
def at_work(
    languages: tuple[str, ...], app: App, folder: Path, journal: Path
) -> Generator[tuple[Proxy, list[subprocess.Popen[bytes]]]]:
    """Programs that work through a server, by way of a network that can fail."""
    app.migrate_sync()
    with web_server(folder, app.url, tokens=f"workers:work:{TOKEN}") as server, Proxy(server.port) as proxy:
        contexts = [worker(language, proxy.port, folder, journal) for language in languages]
        processes = [context.__enter__() for context in contexts]
        try:
            eventually(lambda: len(app.workers_sync()) == len(languages), "the programs to register")
            yield proxy, processes
        finally:
            for context in contexts:
                context.__exit__(None, None, None)


def test_programs_drain_jobs_within_their_limits(languages, app: App, tmp_path: Path, journal: Path):
    with at_work(languages, app, tmp_path, journal) as (_, processes):
        jobs = enqueue(app)
        eventually(lambda: app.count_sync(state="succeeded") == JOBS, "all jobs to succeed", every=0.05)
        assert end(processes) == [0] * len(processes)
        assert app.workers_sync() == []
    assert overlap(noted(journal)) == (PER_SITE, IN_ALL if len(languages) > 1 else 4), "a program has 4 slots"
    by = Counter(job.result_sync()["by"] for job in jobs)
    assert set(by) == {{"js": "javascript", "py": "python"}[language] for language in languages}
    assert (tmp_path / "errors").read_text() == ""


def test_after_lost_connections_programs_and_store_agree_again(
    languages, app: App, tmp_path: Path, journal: Path
):
    with at_work(languages, app, tmp_path, journal) as (proxy, processes):
        jobs = enqueue(app)
        for fault in (proxy.reset, proxy.halve, proxy.reset):
            known = doubts(tmp_path)
            eventually(
                lambda fault=fault, known=known: fault() or doubts(tmp_path) > known, "a lost exchange"
            )
        eventually(lambda: app.count_sync(state="succeeded") == JOBS, "all jobs to succeed", every=0.05)
        assert end(processes) == [0] * len(processes)
    assert {(job.info_sync().state, job.info_sync().tries) for job in jobs} == {("succeeded", 1)}
    one_site, in_all = overlap(noted(journal))
    assert (one_site <= PER_SITE, in_all <= IN_ALL) == (True, True)


def test_a_program_stops_what_is_cancelled_and_leaves_no_job_behind(
    languages, app: App, tmp_path: Path, journal: Path
):
    with at_work(languages, app, tmp_path, journal) as (_, processes):
        job = app.enqueue_sync(app.raw_job("render", {"page": 1, "site": "s", "seconds": 60}))
        eventually(lambda: job.status_sync() == "running", "the job to run")
        job.cancel_sync()
        eventually(lambda: job.status_sync() == "cancelled", "the job to stop")
        assert end(processes) == [0] * len(processes)
    assert [next(iter(event)) for event in noted(journal)] == ["began", "ended"]
