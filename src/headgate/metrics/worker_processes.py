"""What `headgate worker --metrics` shows: the numbers of one process, or the sums over several.

Several processes count in files of one directory, which belongs to their supervisor (prometheus_client's multiprocess
mode): whatever else they count with that library is summed, too. When a process is gone, its counts go into the
files of the dead and its gauges go away, so that neither sums fall nor files grow in number. The store is read by
one of the living processes, which the supervisor asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.engine.contract import Lost
from headgate.metrics import catalogue, instrument
from headgate.metrics.catalogue import Metric
from headgate.metrics.reading import PATIENCE, StoreReader
from headgate.worker.process.endpoints import Pages, ask
from headgate.worker.process.http_endpoint import Answer
from headgate.worker.process.numbers import Answering

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headgate import App

log = logging.getLogger("headgate.metrics")

PATH = "/metrics"
STORE_PATH = "/metrics/store"
"""Where a process answers its supervisor with the readings of the store."""
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client learns, at its import, that it counts in files."""
DEAD = 0
"""The process id under which the counts of dead processes are kept; no process has it."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ASKED = PATIENCE + 1.0
"""Seconds that the processes have to answer with their readings."""


class OneProcess:
    """The numbers of this process."""

    def __init__(self, *, supervised: bool) -> None:
        self._supervised = supervised
        self._shown: CollectorRegistry | None = None

    def count(self, app: App) -> None:
        """Count what the app and its workers do from now on."""
        from prometheus_client import REGISTRY, CollectorRegistry

        from headgate.metrics.prometheus import StoreCollector

        instrument(app, store=not self._supervised)
        if self._supervised:
            self._shown = CollectorRegistry(auto_describe=False)
            self._shown.register(StoreCollector(StoreReader(app)))
        else:
            self._shown = REGISTRY

    def pages(self) -> Pages:
        """All that this process counts, and its store; supervised, the store alone."""
        return {STORE_PATH if self._supervised else PATH: self._page}

    async def _page(self) -> Answer:
        return _answer(b"" if self._shown is None else await _text(self._shown))


class AllProcesses:
    """The sums over all processes of a supervisor."""

    def __init__(self) -> None:
        self._files: Files | None = None

    @contextmanager
    def summed(self, processes: Sequence[Answering]) -> Generator[Pages]:
        """Processes that are started inside count in a directory that is there as long."""
        with tempfile.TemporaryDirectory(prefix="headgate-metrics-", ignore_cleanup_errors=True) as directory:
            before, os.environ[DIRECTORY] = os.environ.get(DIRECTORY), directory
            self._files = Files(Path(directory))
            try:
                yield {PATH: lambda: _sums(self._files, processes)}
            finally:
                self._files = None
                if before is None:
                    del os.environ[DIRECTORY]
                else:
                    os.environ[DIRECTORY] = before

    def lost(self, lost: Lost) -> None:
        """Count what a supervisor has seen to be lost: no process of its own counts that."""
        if (files := self._files) is not None:
            files.add(catalogue.LOST_ATTEMPTS, (), lost.attempts)
            for job in lost.failed:
                files.add(catalogue.JOBS_FAILED_BY_LOSS, (job.task,), 1)


async def _sums(files: Files | None, processes: Sequence[Answering]) -> Answer:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    if files is not None:
        registry.register(files)  # pyright: ignore[reportArgumentType] - it has all that a collector needs
    return _answer(await _text(registry) + await _store_of_any(processes))


async def _store_of_any(processes: Sequence[Answering]) -> bytes:
    """The readings of the first process that has any."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ASKED):
            for port in [process.port for process in processes]:
                with contextlib.suppress(OSError):
                    body = b"" if port is None else (await ask(port, STORE_PATH, ASKED))[1]
                    if body.startswith(b"# HELP"):
                        return body
    return b""


async def _text(registry: CollectorRegistry) -> bytes:
    """In a thread: it may wait for the store, or for another scrape."""
    from prometheus_client import generate_latest

    return await asyncio.to_thread(generate_latest, registry)


def _answer(text: bytes) -> Answer:
    return 200, CONTENT_TYPE, text


class Files:
    """The files of one directory, as a collector of sums. One caller at a time changes them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Any]:
        """The sums over all processes, living and dead."""
        from prometheus_client import multiprocess

        sums: Any = multiprocess.MultiProcessCollector
        with self._lock:
            self._fold_dead()
            return iter(list(sums(None, str(self._directory)).collect()))

    def add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        """Count something that no process counts: as if one that is dead had."""
        from prometheus_client import mmap_dict

        name = metric.name.removesuffix("_total")
        key = mmap_dict.mmap_key(name, metric.name, list(metric.labels), list(labels), metric.help)
        with self._lock:
            _add([(key, value)], self._of_dead("counter"))

    def _of_dead(self, kind: str) -> Path:
        return self._directory / f"{kind}_{DEAD}.db"

    def _fold_dead(self) -> None:
        """Add the counts of processes that are gone to those of the dead, and delete their files."""
        for file in self._directory.glob("*.db"):
            kind, _, pid = file.stem.rpartition("_")
            if int(pid) != DEAD and not _lives(int(pid)):
                if not kind.startswith("gauge"):
                    _add(_counts(file), self._of_dead(kind))
                file.unlink()


def _counts(file: Path) -> list[tuple[str, float]]:
    from prometheus_client import mmap_dict

    counts: Any = mmap_dict.MmapedDict
    try:
        return [(key, value) for key, value, _, _ in counts.read_all_values_from_file(str(file))]
    except (RuntimeError, ValueError) as error:  # killed while it made room in its file
        log.warning("the counts of a worker process that is gone cannot be read: %s", error)
        return []


def _add(counts: Sequence[tuple[str, float]], into: Path) -> None:
    from prometheus_client import mmap_dict

    made: Any = mmap_dict.MmapedDict
    sums = made(str(into))
    try:
        for key, value in counts:
            sums.write_value(key, sums.read_value(key)[0] + value, 0.0)
    finally:
        sums.close()


def _lives(pid: int) -> bool:
    if os.name != "posix":  # where asking would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
