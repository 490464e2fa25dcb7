"""What the driver and the server complain about, as Headgate's errors with a remedy. The only place that knows both."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from headgate.engine.contract import Limit
from headgate.engine.postgres.wire import got, got_key
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.rules.turned_away import refused
from headgate.errors import (
    BacklogFull,
    ConfigError,
    EngineError,
    EngineUnavailable,
    HeadgateError,
    SchemaMismatch,
)
from headgate.keys import Key

SQLSTATES: dict[str, tuple[type[HeadgateError], str]] = {
    "28P01": (ConfigError, "the password is wrong or missing; check the user and password in the URL"),
    "28000": (ConfigError, "the server does not let this user in; check the user in the URL and pg_hba.conf"),
    "3D000": (ConfigError, "there is no such database; create it, or correct the name in the URL"),
    "42501": (
        ConfigError,
        "the user lacks a right; let the owner run `headgate migrate` and grant what is missing",
    ),
    "25006": (EngineUnavailable, "the server is read-only (a standby?); point the URL at the primary"),
    "57P03": (EngineUnavailable, "the server is starting up or shutting down"),
    "57P01": (EngineUnavailable, "the server ended the connection: it is being restarted"),
    "57P02": (EngineUnavailable, "the server ended the connection after a crash"),
    "57P05": (EngineUnavailable, "the server ended the connection because it was idle"),
    "53300": (EngineUnavailable, "too many connections; raise max_connections, or use a pooler"),
    "53100": (EngineUnavailable, "the server's disk is full; nothing was stored"),
    "53200": (EngineUnavailable, "the server is out of memory; nothing was stored"),
    "57014": (EngineUnavailable, "the statement took longer than statement_timeout allows"),
    "55P03": (EngineUnavailable, "a lock was not to be had within lock_timeout; is a transaction stuck?"),
    "40P01": (EngineUnavailable, "the server broke a deadlock by ending this statement"),
    "40001": (EngineUnavailable, "the transaction could not be serialized; Headgate needs READ COMMITTED"),
    "26000": (ConfigError, "a pooler does not keep prepared statements; add ?prepared=off to the URL"),
    "42P05": (ConfigError, "a pooler mixes up prepared statements; add ?prepared=off to the URL"),
    "3F000": (SchemaMismatch, "the schema is missing; run `headgate migrate`"),
    "42P01": (SchemaMismatch, "a table is missing; run `headgate migrate`"),
    "42883": (SchemaMismatch, "a function is missing; run `headgate migrate`"),
    "42703": (SchemaMismatch, "a column is missing; run `headgate migrate`"),
}

TOOK_TOO_LONG = "57014"
ANOTHER_KIND = "HG005"
"""A declaration would turn a limit into one of another kind; the detail names it and both kinds."""
BACKLOG_FULL = "HG006"
"""A call that declares a limit brings a job too many for it; the detail has the key, and how many may wait."""

AT_THE_DOOR: dict[str, tuple[type[HeadgateError], str]] = {
    "42704": (ConfigError, "the URL has an option that neither Headgate nor the server knows"),
    "22023": (ConfigError, "the URL has an option with a value that the server does not take"),
    "42601": (ConfigError, "the URL has an option that the server cannot read"),
}
"""What some codes mean while a connection is made."""


@contextmanager
def translated(where: str, *, connecting: bool = False) -> Generator[None]:
    """The driver's errors as Headgate's. `where` is the store's URL without its password."""
    try:
        yield
    except Exception as error:
        if (known := translation(where, error, connecting=connecting)) is not None:
            raise known from error
        raise


def translation(where: str, error: BaseException, *, connecting: bool = False) -> HeadgateError | None:
    """A driver's error as Headgate's; None if it is not one."""
    match error:
        case asyncpg.PostgresError():
            return _known(where, error, SQLSTATES | AT_THE_DOOR if connecting else SQLSTATES)
        case asyncpg.ClientConfigurationError():
            return ConfigError(f"{where}: {error}")
        case asyncpg.InterfaceError():
            return EngineUnavailable(f"{where}: the connection was lost ({error})")
        case asyncpg.TargetServerAttributeNotMatched():
            return EngineUnavailable(
                f"{where}: none of the servers that answer is what target_session_attrs asks for"
            )
        case asyncpg.InternalClientError():  # the end of a connection, seen from inside the driver
            return EngineUnavailable(f"{where}: the connection was lost")
        case TimeoutError():
            return EngineUnavailable(f"{where}: the server did not answer in time")
        case OSError():
            return EngineUnavailable(f"{where}: the server cannot be reached ({error})")
        case _:
            return None


def _known(
    where: str, error: asyncpg.PostgresError, known: dict[str, tuple[type[HeadgateError], str]]
) -> HeadgateError:
    code: str = getattr(error, "sqlstate", None) or ""
    if code == ANOTHER_KIND:
        return _another_kind(getattr(error, "detail", "") or "")
    if code == BACKLOG_FULL:
        return full(*msgspec.json.decode(getattr(error, "detail", "") or ""))
    if "could not extend file" in str(error):  # also beyond a quota, for which there is no code
        code = "53100"
    if code in known:
        kind, remedy = known[code]
        return kind(f"{where}: {remedy} ({error})")
    if is_trouble(error):
        return EngineUnavailable(f"{where}: {error} ({code})")
    return EngineError(f"{where}: {type(error).__name__}: {error} ({code})")


def is_trouble(error: asyncpg.PostgresError) -> bool:
    """Whether a server that cannot work complains, not one that was asked wrongly."""
    code: str = getattr(error, "sqlstate", None) or ""
    return code != TOOK_TOO_LONG and code.startswith(("08", "53", "57", "58", "XX"))


def _another_kind(detail: str) -> HeadgateError:
    """In the words that all engines have for it."""
    name, known, wanted = msgspec.json.decode(detail)
    book = RuleBook()
    book.limits[got(name)] = Limit(got(name), known, None)
    try:
        book.check_kind(Limit(got(name), wanted, None))
    except ConfigError as refusal:
        return refusal
    return EngineError(detail)


def full(key: str, most: int | str) -> BacklogFull:
    """As many jobs wait for a key as may."""
    ident = got_key(key)
    return BacklogFull(refused(ident, int(most)), Key.of(ident).text)
