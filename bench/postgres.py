"""A PostgreSQL server for the benchmarks: durable as it comes, one for the whole run, a database per measurement."""

import atexit
import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit

from tests.support.postgres_server import PostgresProcess

# `pg_stat_statements` counts for the row about traffic; every system is measured with it.
SETTINGS = ("shared_buffers=256MB", "max_wal_size=4GB", "shared_preload_libraries=pg_stat_statements")

_numbers = itertools.count(1)


@contextmanager
def database() -> Generator[str]:
    """An empty database, gone at the end. What it left to be written is written before the next system is measured.

    HEADGATE_BENCH_POSTGRES_URL names a server to use instead of one of our own.
    """
    server = os.environ.get("HEADGATE_BENCH_POSTGRES_URL") or _server().dsn
    name = f"bench_{os.getpid()}_{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name}")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)", "CHECKPOINT")


def _execute(server: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@cache
def _server() -> PostgresProcess:
    server = PostgresProcess(*SETTINGS)
    atexit.register(server.stop)
    server.start()
    return server
