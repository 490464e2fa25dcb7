"""Stores that apps and worker processes are tested on, by URL: whatever several processes can share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support import postgres_server, postgres_sessions
from tests.support.redis_leaks import check_and_clear
from tests.support.redis_servers import binary, fresh_prefix, shared
from tests.support.sqlite_files import put_empty_store

STORES: list[Any] = ["sqlite", *(kind for kind in ("valkey", "redis7") if binary(kind))]
PROCESS_STORES: list[Any] = [*STORES, *(kind for kind in ("redis6",) if binary(kind))]
"""For tests of real processes: also the oldest server."""
if postgres_server.available():
    STORES.append("postgres")
    PROCESS_STORES.append("postgres")


@contextmanager
def fresh_url(store: str, directory: Path) -> Generator[str]:
    """The URL of an empty store; what Redis keeps at the end must be in its catalogue."""
    match store:
        case "sqlite":
            put_empty_store(directory / "jobs.db")
            yield f"sqlite:///{directory}/jobs.db"
        case "postgres":
            from tests.support.postgres_met import MetPostgresEngine

            server, schema = postgres_server.shared_server(), postgres_server.borrow_schema()
            patch = postgres_sessions.kept()
            patch.setattr("headgate.engine.postgres.PostgresEngine", MetPostgresEngine)
            try:
                yield server.url(quote(schema))
            finally:
                patch.undo()
            postgres_server.give_back_schema(schema)
        case _:
            process, prefix = shared(store), fresh_prefix()
            yield f"{process.url}?prefix={prefix}"
            check_and_clear(process, prefix)
