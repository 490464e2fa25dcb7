"""From a URL to an engine. Each engine, and its client library, is imported only when its URL is used.

memory://                    in this process, gone with it; one store per app
memory://name                the same, shared by the apps of this process that use the name
sqlite:///jobs.db            a file, relative to the working directory
sqlite:////var/lib/jobs.db   a file, absolute; with ?synchronous=full a power cut loses nothing either
postgresql://user@host/db    a schema of a database: `headgate`, or another with ?schema=name; ?prepared=off for poolers
                             that cannot keep prepared statements; what else stands behind the question mark is
                             the driver's (sslmode, host=/var/run/postgresql …); several hosts, host1:5432,host2:5432,
                             with ?target_session_attrs=primary
redis://host:6379/0          Redis or Valkey; also rediss://, valkey://, unix://, redis+sentinel://, redis+cluster://
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from headgate.engine.contract import Engine, Settings
from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.engine.memory import MemoryEngine
    from headgate.engine.redis.url import Target

Clock = Callable[[], int]

REDIS = tuple(
    name + kind for name in ("redis", "rediss", "valkey", "valkeys") for kind in ("", "+sentinel", "+cluster")
)
SCHEMES = ("memory", "sqlite", "postgresql", "postgres", "unix", *REDIS)
_shared: dict[str, MemoryEngine] = {}
_PASSWORD = re.compile(r"([?&](?:\w*_)?password=)[^&#]*")


def check_url(url: str) -> str:
    """Refuse a URL that can never work, before anything is opened."""
    if not isinstance(url, str) or not url:
        raise ConfigError(f"the store's URL must be a text such as 'sqlite:///jobs.db', not {url!r}")
    parts = _split(url)
    if parts.scheme == "sqlite":
        sqlite_path(parts, url)
        _options(parts, url, ("synchronous",))
        return url
    if parts.scheme.startswith("postgres"):
        postgres_options(parts, url)
        return url
    if parts.scheme in ("unix", *REDIS):
        redis_target(url)
        return url
    if parts.path:
        raise ConfigError(
            f"{shown_url(url)!r} has a path; memory:// takes at most a name, as in memory://tests"
        )
    _options(parts, url, ())
    return url


def _split(url: str) -> SplitResult:
    scheme, separator, _ = url.partition("://")
    if not separator and (known := url.partition(":")[0]) in SCHEMES:
        raise ConfigError(f"{shown_url(url)!r} is not a URL; it begins with {known}://")
    if not separator:
        raise ConfigError(f"{shown_url(url)!r} is not a URL; a file is written as sqlite:///{url}")
    if scheme.partition("+")[0] in ("postgresql", "postgres") and "+" in scheme:
        raise ConfigError(f"{shown_url(url)!r}: the driver is Headgate's choice; write postgresql://…")
    if scheme not in SCHEMES:
        raise ConfigError(
            f"{shown_url(url)!r}: unknown scheme {scheme!r}; "
            "there are memory://, sqlite:///file, postgresql://… and redis://host"
        )
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"{shown_url(url)!r} is not a URL: {error}") from None


def sqlite_path(parts: SplitResult, url: str) -> str:
    """The file that a sqlite URL names."""
    if parts.netloc:
        raise ConfigError(
            f"{shown_url(url)!r}: three slashes are needed, as in sqlite:///{parts.netloc}{parts.path}"
        )
    path = unquote(parts.path[1:])
    if not path or path.endswith("/"):
        raise ConfigError(
            f"{shown_url(url)!r} names no file; write sqlite:///jobs.db or sqlite:////var/lib/jobs.db"
        )
    if path == ":memory:":
        raise ConfigError(
            f"{shown_url(url)!r} would be one private store per connection; use memory:// instead"
        )
    if "\0" in path:
        raise ConfigError(f"{shown_url(url)!r}: the path contains a NUL character")
    return path


def postgres_options(parts: SplitResult, url: str) -> tuple[str, dict[str, str]]:
    """The driver's URL, and our own options out of it."""
    if parts.fragment:
        raise ConfigError(f"{shown_url(url)!r}: a '#' in a URL is written %23")
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            _ = urlsplit(f"//{host}").port
        except ValueError as error:
            raise ConfigError(f"{shown_url(url)!r}: {host!r} is no host and port: {error}") from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in ("schema", "prepared")}
    if ours.get("schema") == "":
        raise ConfigError(f"{shown_url(url)!r}: ?schema= names no schema; leave it out for 'headgate'")
    if ours.get("prepared", "on") not in ("on", "off"):
        raise ConfigError(f"{shown_url(url)!r}: prepared is on or off, not {ours['prepared']!r}")
    rest = urlencode([(name, value) for name, value in options if name not in ours])
    return urlunsplit(("postgresql", parts.netloc, parts.path, rest, "")), ours


def redis_target(url: str) -> Target:
    """The server, or servers, that a URL of Redis or Valkey names."""
    try:
        from headgate.engine.redis.url import parse
    except ImportError as error:
        raise ConfigError(
            f"{shown_url(url)!r} needs the client library of Redis: pip install 'headgate[redis]' ({error})"
        ) from None
    return parse(url, shown_url(url))


def _options(parts: SplitResult, url: str, known: Sequence[str]) -> dict[str, str]:
    """What stands behind the question mark."""
    if parts.fragment:
        raise ConfigError(f"{shown_url(url)!r}: a '#' in a path is written %23")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(f"{shown_url(url)!r}: unknown option {name!r}; there is {there}")
    if options.get("synchronous", "full").lower() not in ("normal", "full"):
        raise ConfigError(f"{shown_url(url)!r}: synchronous is normal or full")
    return options


def shown_url(url: str) -> str:
    """The URL without what may be a password."""
    head, at, tail = url.rpartition("@")
    shown = f"{head.partition('://')[0]}://…@{tail}" if at else url
    return _PASSWORD.sub(r"\1…", shown)


def make_engine(url: str, settings: Settings, clock: Clock | None = None) -> Engine:
    """An engine that is not open yet. `clock` replaces the store's own: tests move it."""
    parts = _split(check_url(url))
    match parts.scheme:
        case "memory":
            return _memory(parts, settings, clock)
        case "sqlite":
            return _sqlite(parts, url, settings, clock)
        case "postgresql" | "postgres":
            return _postgres(parts, url, settings, clock)
        case _:
            return _redis(url, settings, clock)


def _memory(parts: SplitResult, settings: Settings, clock: Clock | None) -> Engine:
    from headgate.engine.memory import MemoryEngine

    if not parts.netloc:
        return MemoryEngine(settings, clock)
    return _shared.setdefault(parts.netloc, MemoryEngine(settings, clock))


def _sqlite(parts: SplitResult, url: str, settings: Settings, clock: Clock | None) -> Engine:
    from headgate.engine.sqlite import SqliteEngine

    options = _options(parts, url, ("synchronous",))
    return SqliteEngine(sqlite_path(parts, url), settings, clock=clock, **options)


def _postgres(parts: SplitResult, url: str, settings: Settings, clock: Clock | None) -> Engine:
    try:
        from headgate.engine.postgres import PostgresEngine
    except ImportError as error:
        raise ConfigError(f"{shown_url(url)!r} needs asyncpg: pip install 'headgate[postgres]'") from error

    dsn, ours = postgres_options(parts, url)
    return PostgresEngine(
        dsn,
        settings,
        where=shown_url(url),
        schema=ours.get("schema", "headgate"),
        clock=clock,
        prepared=ours.get("prepared") != "off",
    )


def _redis(url: str, settings: Settings, clock: Clock | None) -> Engine:
    from headgate.engine.redis import RedisEngine

    return RedisEngine(redis_target(url), settings, clock=clock)
