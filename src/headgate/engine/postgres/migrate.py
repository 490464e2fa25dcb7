"""Numbered migrations, forward only. Two processes may start at once: the second waits and finds the work done.

The tables have a version each time they change; functions and views belong to the version and are made anew with it.

Processes of the release before go on while a schema is migrated, and afterwards, until they are replaced. So a
migration adds (tables, columns with defaults, indexes); and a function whose parameters or result must change gets a
new name, while the old one stays for a release.
"""

from __future__ import annotations

import asyncio
import random

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from headgate.engine.postgres.pools import Connection
from headgate.engine.postgres.scripts import for_schema, lock_number, quoted, scripts
from headgate.errors import ConfigError, SchemaMismatch

OLDEST_SERVER = 14
MIGRATING = 1212629334
"""The first half of the advisory lock under which a schema is migrated."""
LOCK_TIMEOUT = 500
"""Milliseconds that a migration waits for a table: less than the server's deadlock_timeout."""
TRIES = 50


def newest() -> int:
    """The version that this code brings."""
    return len(scripts("migrations"))


async def check_server(connection: Connection, where: str) -> None:
    """Refuse servers that cannot work."""
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise SchemaMismatch(
            f"{where} is PostgreSQL {version.major}; Headgate needs {OLDEST_SERVER} or newer"
        )
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise ConfigError(f"{where}: the database's encoding is {encoding}; Headgate needs UTF8")
    isolation = await connection.fetchval("SELECT current_setting('default_transaction_isolation')")
    if isolation != "read committed":
        raise ConfigError(
            f"{where}: transactions are {isolation} by default; Headgate needs read committed: "
            "ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )


async def version(connection: Connection, schema: str, where: str) -> int:
    """The schema's version; 0 if it is missing or empty. A schema of another program is refused."""
    tables = await connection.fetch(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v')",
        schema,
    )
    names = {row[0] for row in tables}
    if not names:
        return 0
    if not {"meta", "jobs", "holders"} <= names:
        raise SchemaMismatch(
            f"{where}: schema {schema!r} holds other tables; choose another with ?schema=name"
        )
    found = await connection.fetchval(f"SELECT value FROM {quoted(schema)}.meta WHERE name = 'version'")
    if int(found or 0) > newest():
        raise SchemaMismatch(
            f"{where}: schema {schema!r} has version {found}, but this Headgate knows only {newest()}; upgrade Headgate"
        )
    return int(found or 0)


async def migrate(connection: Connection, schema: str, where: str) -> tuple[int, int]:
    """Bring the schema to this code's version; returns the versions before and after.

    Workers go on meanwhile. A change of a table waits for all steps that use it, and later steps wait behind it; so a
    migration that does not get its tables at once lets go of everything and comes again.
    """
    await check_server(connection, where)
    for _ in range(TRIES):
        try:
            return await _migrate(connection, schema, where)
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(random.uniform(0.1, 0.5))
    return await _migrate(connection, schema, where)


async def _migrate(connection: Connection, schema: str, where: str) -> tuple[int, int]:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1, $2)", MIGRATING, lock_number(schema))
        before = await version(connection, schema, where)
        if before < newest():
            await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT}")
            await _apply(connection, schema, before)
    return before, newest()


async def _apply(connection: Connection, schema: str, before: int) -> None:
    await connection.execute("SET LOCAL client_min_messages = warning")
    there = await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema)
    if there is None:
        await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
    for _, script in scripts("migrations")[before:]:
        await connection.execute(for_schema(script, schema))
    for _, script in scripts("functions"):
        await connection.execute(for_schema(script, schema))
    await connection.execute(
        f"INSERT INTO {quoted(schema)}.meta (name, value) VALUES ('version', $1) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        str(newest()),
    )
