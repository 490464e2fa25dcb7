"""A pytest plugin: tests are collected once, and then some of them are run in a fork, request by request.

It stands in the process of a `Session`. Requests come on standard input and events leave on standard output, each a
line of JSON; what tests print goes elsewhere. The servers that tests share run for as long as this process; what a fork
leaves on them is removed before the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from tests.mutants.talk import Asked, Begun, Collected, Ended, Event, Forked, Ran
from tests.support import postgres_server, redis_servers

SLOWER = 6
"""How much more time a test has that is marked as slow."""
_requests = os.fdopen(os.dup(0), "rb")
_events = os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--server", choices=["none", "postgres", "valkey"], default="none")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of running all."""
    items = {item.nodeid: item for item in session.items}
    kind = str(session.config.getoption("--server"))
    forks = 0
    _begin(kind)
    kept = _temporary()
    _tell(Collected(list(items)))
    for line in _requests:
        asked, forks = msgspec.json.decode(line, type=Asked), forks + 1
        pid = os.fork()
        if pid == 0:
            _in_fork(items, asked, forks)
        _tell(Forked(pid))
        os.waitpid(pid, 0)
        _kill(pid)  # what the fork has started
        _clear(kind)
        _remove(_temporary() - kept)
        _tell(Ended())
    return True


def _in_fork(items: Mapping[str, pytest.Item], asked: Asked, number: int) -> NoReturn:
    """Leader of a group of its own; nothing of this process is closed when it ends."""
    try:
        os.setsid()
        postgres_server.name_schemas_from(number * 1000)
        _run([items[test] for test in asked.tests], asked)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _run(items: Sequence[pytest.Item], asked: Asked) -> None:
    """Until one fails by an assertion, or some do not end."""
    watch, late = _Watch(), 0
    items[0].config.pluginmanager.register(watch)
    for item, following in zip(items, [*items[1:], None], strict=True):
        slower = SLOWER if item.get_closest_marker("slow") else 1
        item.add_marker(pytest.mark.timeout(asked.limit * slower), append=False)
        watch.failed = watch.timed_out = False
        _tell(Begun(item.nodeid))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        _tell(Ran(item.nodeid, watch.failed, watch.timed_out))
        late += watch.timed_out
        if watch.failed and (not watch.timed_out or late == asked.late):
            return


class _Watch:
    """What became of a test."""

    failed = timed_out = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        self.failed = self.failed or report.failed
        self.timed_out = self.timed_out or (report.failed and "Timeout (>" in str(report.longrepr))
        yield


def _begin(kind: str) -> None:
    if kind == "postgres":
        postgres_server.shared_server()
    elif kind == "valkey":
        redis_servers.shared("valkey")


def _clear(kind: str) -> None:
    """Statements and scripts that do not end are ended."""
    if kind == "postgres":
        server = postgres_server.shared_server()
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        for (name,) in server.execute(
            "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname LIKE 'test %'"
        ):
            server.execute(f"DROP SCHEMA {name} CASCADE")
    elif kind == "valkey":
        _clear_valkey()


def _clear_valkey() -> None:
    server = redis_servers.shared("valkey")
    try:
        with server.client(socket_timeout=2) as client:
            client.flushall()
    except Exception:  # a script that has written and does not end can be ended with its server only
        server.kill()
        server.start()


def _temporary() -> set[Path]:
    return set(Path(tempfile.gettempdir()).iterdir())


def _remove(left: set[Path]) -> None:
    for each in left:
        shutil.rmtree(each, ignore_errors=True)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _tell(event: Event) -> None:
    os.write(_events, msgspec.json.encode(event) + b"\n")
