"""Numbered migrations, forward only. Two processes may start at once: the second finds the work done."""

from __future__ import annotations

from functools import cache
from importlib import resources

from headgate.engine.sqlite.connection import Connection, use_wal
from headgate.errors import SchemaMismatch

APPLICATION_ID = 0x48474154
"""'HGAT': how a Headgate file is told from any other SQLite file."""


@cache
def migrations() -> tuple[str, ...]:
    """The scripts in order; the n-th brings a file to version n."""
    folder = resources.files("headgate.engine.sqlite") / "migrations"
    return tuple(
        file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda f: f.name)
        if file.name.endswith(".sql")
    )


def migrate(connection: Connection, path: str, busy_timeout: int) -> tuple[int, int]:
    """Bring the file to this code's version; returns the versions before and after."""
    before = _look(connection, path)
    use_wal(connection, path, busy_timeout)  # always: a copy may have lost the mode
    if before == len(migrations()):
        return before, before
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in migrations()[check(connection, path) :]:
            connection.execute(script)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations())}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise
    return before, len(migrations())


def _look(connection: Connection, path: str) -> int:
    """Check at one instant: another process may be creating the file."""
    connection.execute("BEGIN")
    try:
        return check(connection, path)
    finally:
        connection.execute("COMMIT")


def check(connection: Connection, path: str) -> int:
    """The file's version, if it is empty or one of ours and not newer than this code."""
    version = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    if (
        application == 0
        and version == 0
        and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    ):
        return 0
    if application != APPLICATION_ID:
        raise SchemaMismatch(
            f"{path} is a SQLite database of another program; choose another file for Headgate"
        )
    if version > len(migrations()):
        raise SchemaMismatch(
            f"{path} has schema version {version}, but this Headgate knows only {len(migrations())}; upgrade Headgate"
        )
    return version
