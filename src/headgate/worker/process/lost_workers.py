"""What a supervisor tells the store about workers whose process is gone, so that their slots need not wait for a lease.

A process that was killed or crashed has lost its workers: the store decides which of their jobs may be to blame (rule
15). One that ended on purpose while a thread could not be stopped gives its jobs back without blame. All of it happens
in a thread of its own: supervision never waits for a store.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from headgate.engine.contract import Engine, Lost, Part
from headgate.engine.deadline import within
from headgate.engine.open import make_engine
from headgate.errors import EngineUnavailable
from headgate.worker.engine_status import Backoff
from headgate.worker.lost_jobs import log_lost
from headgate.worker.registrations import StoreNote

log = logging.getLogger("headgate.worker")

LostListener = Callable[[Lost], None]

ONE_TRY = 5.0
"""Seconds for one try."""


class LostWorkers(msgspec.Struct, frozen=True):
    """Workers whose process is gone. `blame` unless the process ended on purpose."""

    store: StoreNote
    workers: Sequence[str]
    blame: bool
    until: float
    """The time of the monotonic clock after which their leases have lapsed anyway."""


class LossReporter:
    """Tells stores about lost workers, and `lost` what came of it. The thread is started when it is first needed."""

    def __init__(self, lost: LostListener | None = None) -> None:
        self._lost = lost
        self._queue: queue.SimpleQueue[LostWorkers | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def report(self, gone: LostWorkers) -> None:
        """Tell the store, soon."""
        if gone.workers and not gone.store.url.startswith("memory:"):
            self._queue.put(gone)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="headgate-lost-workers", daemon=True)
                self._thread.start()

    def close(self, seconds: float) -> None:
        """Wait for what is still to be told, but not for long."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(seconds)

    def _serve(self) -> None:
        while (gone := self._queue.get()) is not None:
            try:
                asyncio.run(tell_until_heard(gone, self._lost))
            except Exception:
                log.exception("the store could not be told of lost workers; their leases will lapse")


async def tell_until_heard(gone: LostWorkers, lost: LostListener | None = None) -> None:
    """Tell the store; one that cannot be reached is tried again until it no longer matters."""
    backoff = Backoff(1.0)
    while True:
        try:
            with within(ONE_TRY):
                await _tell(gone, lost)
        except EngineUnavailable as error:
            if time.monotonic() > gone.until:
                log.warning(
                    "the store could not be told of lost workers; their leases have lapsed: %s", error
                )
                return
            await asyncio.sleep(backoff.wait())
        else:
            return


async def _tell(gone: LostWorkers, lost: LostListener | None) -> None:
    engine = make_engine(gone.store.url, gone.store.settings)
    try:
        await engine.open()
        await _tell_parts(engine, gone, lost)
    finally:
        await engine.close()


async def _tell_parts(engine: Engine, gone: LostWorkers, lost: LostListener | None) -> None:
    """All parts at once: one that is silent holds up no other. What was told already is told again in vain."""
    told = await asyncio.gather(
        *(_tell_part(part, gone, lost) for part in engine.parts()), return_exceptions=True
    )
    for error in told:
        if isinstance(error, BaseException):
            raise error


async def _tell_part(part: Part, gone: LostWorkers, listener: LostListener | None) -> None:
    if not gone.blame:
        for worker in gone.workers:
            await part.retire(worker)
        return
    lost = await part.report_lost(gone.workers)
    if lost.attempts:
        log.warning("%d jobs were lost with it; their slots are free again", lost.attempts)
    log_lost(lost.failed)
    if listener is not None:
        listener(lost)
