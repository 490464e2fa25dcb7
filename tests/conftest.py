"""Which tests need a server: everything that is run on one, whatever fixture or parameter brings it in.

What runs on PostgreSQL has a marker of its own, so that `make test-postgres` can run all of it, on any version; so has
what runs on Redis 6.2, which shares its scripts with Valkey: slow tests that pass on one pass on the other.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import postgres_binaries, postgres_server

A_WHILE = 3
"""Seconds that a test takes about whose marker does not say."""
A_MOMENT = 0.5
PROGRAMS = frozenset(
    {"browser", "cli", "django", "docs", "frameworks", "postgres", "processes", "redis", "web", "worker"}
)
"""Suites of which many tests run programs or wait, and take a moment each; those of others take milliseconds."""
REDIS, OLD_REDIS, POSTGRES = ("valkey", "redis"), ("redis6",), ("postgres",)


def pytest_configure(config: pytest.Config) -> None:
    """What the processes of a run share goes when the first of them ends, which is the last to end.

    A run in the background of a shell ignores SIGINT, and so would the programs that tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        postgres_binaries.begin_run()


def pytest_report_header() -> str:
    """Which PostgreSQL the tests run on."""
    return f"PostgreSQL: {postgres_server.shown()}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark them before `-m` chooses, so that the fast part can leave them out. What takes longer comes first, however
    all was shuffled: it mostly waits, while other processes of the run compute, and none is left with a long test
    at the end."""
    for item in items:
        if _runs_on(item, POSTGRES):
            item.add_marker(pytest.mark.postgres)
        elif _runs_on(item, REDIS):
            item.add_marker(pytest.mark.server)
        if _runs_on(item, OLD_REDIS):
            item.add_marker(pytest.mark.redis6)
    yield
    items.sort(key=_seconds, reverse=True)


def _seconds(item: pytest.Item) -> float:
    """How long a test takes about."""
    marker = item.get_closest_marker("slow")
    if marker is None:
        return A_MOMENT if item.path.parent.name in PROGRAMS else 0
    return (*marker.args, A_WHILE)[0]


def _runs_on(item: pytest.Item, kinds: tuple[str, ...]) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {}).values()
    on_server = any(isinstance(value, str) and value.startswith(kinds) for value in params)
    return on_server or Path(item.path).parent.name.startswith(kinds)
