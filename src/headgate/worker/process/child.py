"""One worker process: loads the app, owns the event loop, works until it is told to stop.

`headgate worker` runs this in its own process; a supervisor runs it as `python -m headgate.worker.process.child PLAN`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from headgate.errors import EngineUnavailable, HeadgateError, LifespanError
from headgate.worker import registrations
from headgate.worker.engine_status import Backoff
from headgate.worker.pool.app_source import remember_source
from headgate.worker.process.config import CANNOT_START, DONE, LIFESPAN_FAILED, RELOAD, ProcessConfig
from headgate.worker.process.endpoints import endpoints
from headgate.worker.process.load_app import load_app
from headgate.worker.process.logs import configure_logs
from headgate.worker.process.numbers import numbers_of
from headgate.worker.process.process_health import ProcessHealth
from headgate.worker.process.reload import Reloader, wait_for_change

log = logging.getLogger("headgate.worker")


def work(config: ProcessConfig, app: Any = None) -> int:
    """Do what the config says, with the app that was loaded already, if one was; returns the exit code."""
    if config.files.registrations is not None:
        registrations.keep_in(config.files.registrations)
    if config.supervised:
        _watch_parent()
    return _work_and_reload(config) if config.reload else _work(config, app)


def run(main: Callable[[], Any]) -> None:
    """Run a coroutine function on an event loop of ours: uvloop's where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _work(config: ProcessConfig, app: Any = None) -> int:
    try:
        health, numbers = ProcessHealth(), numbers_of(config.numbers, supervised=config.supervised)
        wanted = [(config.health, health.pages()), (config.metrics, numbers.pages())]
        with endpoints(wanted, config.files.endpoint):
            app = _load(config, app)
            numbers.count(app)
            registrations.note_store(app)
            options = config.options()
            if config.answers:
                options["watch"] = health.watch
            _work_once_reachable(lambda: app.run_worker(**options, signals=True))
    except LifespanError as error:
        log.critical("%s", error, exc_info=error.__cause__)
        return LIFESPAN_FAILED
    except HeadgateError as error:
        log.critical("%s", error)
        return CANNOT_START
    return DONE


def _load(config: ProcessConfig, app: Any) -> Any:
    """The app; it comes before logs are configured, since it may configure them itself."""
    try:
        if app is None:
            app = load_app(config.target, factory=config.factory, app_dir=config.app_dir)
        remember_source(app, config.source)
        return app
    finally:
        configure_logs(config.log_level, json=config.log_json, config=config.log_config)


def _work_once_reachable(main: Callable[[], Any]) -> None:
    """Work; a store that cannot be reached when it is opened is waited for. A worker that works waits by itself."""
    backoff, said = Backoff(), False
    while True:
        try:
            run(main)
        except EngineUnavailable as error:
            if not said:
                log.warning("the store cannot be opened, trying again: %s", error)
            said = True
            time.sleep(backoff.wait())
        else:
            return


def _work_and_reload(config: ProcessConfig) -> int:
    """Work until a source file changes. Code that cannot be imported is a reason to wait for the next change."""
    reloader = Reloader()
    reloader.start()
    try:
        code = _work(config)
    except Exception:
        log.exception("cannot be loaded; waiting for a change")
        code = CANNOT_START
    if code in (CANNOT_START, LIFESPAN_FAILED) and not reloader.changed:
        wait_for_change(config.app_dir)
        return RELOAD
    return RELOAD if reloader.changed else code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _watch_parent() -> None:
    """A worker must not outlive its supervisor: when the pipe to it closes, stop as if told to."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="headgate-parent", daemon=True).start()


def main() -> None:
    """The entry of a child process."""
    code = work(msgspec.json.decode(sys.argv[1], type=ProcessConfig))
    logging.shutdown()
    # Threads that hang in a task must not keep the process: their jobs come back now that they end.
    os._exit(code)


if __name__ == "__main__":
    main()
