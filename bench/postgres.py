"""A PostgreSQL server for the benchmarks: durable as it comes, one for the whole run."""

import atexit
import os
from functools import cache
from pathlib import Path

from tests.postgres_server import PostgresProcess


def url(scratch: Path) -> str:
    """A fresh schema for each measurement; HEADGATE_BENCH_POSTGRES_URL names a server to use instead."""
    schema = f"bench_{abs(hash(str(scratch))) % 10**9}"
    if given := os.environ.get("HEADGATE_BENCH_POSTGRES_URL"):
        return f"{given}{'&' if '?' in given else '?'}schema={schema}"
    return _server().url(schema)


@cache
def _server() -> PostgresProcess:
    server = PostgresProcess("shared_buffers=256MB", "max_wal_size=4GB")
    atexit.register(server.stop)
    server.start()
    return server
