"""URLs of Redis and Valkey, and what stands behind their question mark.

redis://user:password@host:6379/0     rediss:// the same over TLS     valkey:// and valkeys:// the same
unix:///run/valkey.sock?db=0          a socket of this machine; unix://user:password@/run/valkey.sock
redis+sentinel://h1:26379,h2,h3/name  the master that the sentinels know under this name (rediss+sentinel:// over TLS)
redis+cluster://h1:7000,h2:7001       a cluster (rediss+cluster:// over TLS)

Options: prefix (what the keys begin with, `headgate`), partitions (1), db (where the path does not give it); over TLS
ca (a file with the certificates to trust), cert and key (our own, for servers that ask for it), verify (`full`, or `ca`
to leave the host's name out); of sentinels sentinel_user and sentinel_password, where theirs are not the master's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headgate.engine.redis.tls import Tls
from headgate.errors import ConfigError

Address = tuple[str, int]
Mode = Literal["server", "unix", "sentinel", "cluster"]

TLS_OPTIONS = ("ca", "cert", "key", "verify")
SENTINEL_OPTIONS = ("sentinel_user", "sentinel_password")
OPTIONS = ("prefix", "partitions", "db", *TLS_OPTIONS, *SENTINEL_OPTIONS)
MOST_PARTITIONS = 1024


class Target(NamedTuple):
    """Where the store is."""

    mode: Mode
    addresses: tuple[Address, ...]
    path: str
    db: int
    user: str | None
    password: str | None
    tls: Tls | None
    master: str
    sentinel_user: str | None
    sentinel_password: str | None
    prefix: str
    partitions: int

    @property
    def shown(self) -> str:
        """For messages: without the password."""
        if self.mode == "unix":
            return self.path
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


def parse(url: str, shown: str) -> Target:
    """The target that a URL names; `shown` is the URL as it may appear in messages."""
    head, _, rest = url.partition("://")
    try:
        parts = urlsplit("//" + rest)
    except ValueError as error:
        raise ConfigError(f"{shown!r} is not a URL: {error}") from None
    _check_marks(parts, shown)
    options = _options(parts, shown)
    mode = _mode(head)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    path = unquote(parts.path)
    target = Target(
        mode=mode,
        addresses=() if mode == "unix" else _addresses(hosts, mode, shown),
        path=_socket(hosts, path, shown) if mode == "unix" else "",
        db=_db(path.strip("/") if mode in ("server", "cluster") else "", options, mode, shown),
        user=unquote(user) or None,
        password=unquote(password) or None,
        tls=_tls(head, options, shown),
        master=_master(path.strip("/"), shown) if mode == "sentinel" else "",
        sentinel_user=options.get("sentinel_user"),
        sentinel_password=options.get("sentinel_password"),
        prefix=_prefix(options, shown),
        partitions=_partitions(options, shown),
    )
    for name in SENTINEL_OPTIONS if mode != "sentinel" else ():
        if name in options:
            raise ConfigError(f"{shown!r}: {name} is for redis+sentinel://")
    if target.user and target.password is None:
        raise ConfigError(
            f"{shown!r} names a user without a password; a password alone is written redis://:password@host"
        )
    return target


def _mode(head: str) -> Mode:
    if head == "unix":
        return "unix"
    kind = head.partition("+")[2]
    return "cluster" if kind == "cluster" else "sentinel" if kind == "sentinel" else "server"


def _check_marks(parts: SplitResult, shown: str) -> None:
    """Marks that end a part of a URL: where they stand in a password as they are, the rest would be taken for a host, a
    path or options. Nothing of it is shown: it may be the password."""
    behind = parts.path + parts.query + parts.fragment
    if "@" in behind:
        raise ConfigError(
            f"{shown!r}: a user, a password and an option are written with %40 for @, %2F for /, %3A for :, %3F for ?, "
            "%23 for # and %25 for %"
        )
    if parts.fragment:
        raise ConfigError(f"{shown!r}: a '#' in a URL is written %23")


def _socket(host: str, path: str, shown: str) -> str:
    if host or len(path) < 2:
        raise ConfigError(f"{shown!r} names no socket; write unix:///run/valkey.sock")
    return path


def _master(name: str, shown: str) -> str:
    if not name:
        raise ConfigError(f"{shown!r} names no master; write redis+sentinel://host:26379/mymaster")
    if "/" in name:
        raise ConfigError(
            f"{shown!r}: {name!r} is no master's name; a database is named by ?db={name.rpartition('/')[2]}"
        )
    return name


def _tls(head: str, options: Mapping[str, str], shown: str) -> Tls | None:
    given = [name for name in TLS_OPTIONS if name in options]
    if not head.startswith(("rediss", "valkeys")):
        if given:
            raise ConfigError(f"{shown!r}: {given[0]} is for TLS; write rediss:// instead of {head}://")
        return None
    if "key" in options and "cert" not in options:
        raise ConfigError(f"{shown!r}: a key needs its certificate, ?cert=file")
    verify = options.get("verify", "full")
    if verify not in ("full", "ca"):
        raise ConfigError(f"{shown!r}: verify is full or ca, not {verify!r}")
    return Tls(options.get("ca"), options.get("cert"), options.get("key"), verify == "full")


def _options(parts: SplitResult, shown: str) -> Mapping[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = dict(given)
    for name in options:
        if name not in OPTIONS:
            raise ConfigError(f"{shown!r}: unknown option {name!r}; there are {', '.join(OPTIONS)}")
    if len(given) > len(options):
        raise ConfigError(f"{shown!r} gives an option twice")
    return options


def _addresses(hosts: str, mode: Mode, shown: str) -> tuple[Address, ...]:
    found: list[Address] = []
    for each in hosts.split(","):
        try:
            parts = urlsplit(f"//{each}")
            address = parts.hostname or "localhost", parts.port or (26379 if mode == "sentinel" else 6379)
        except ValueError as error:
            raise ConfigError(f"{shown!r}: {each!r} is no host and port: {error}") from None
        if any(character.isspace() for character in address[0]):
            raise ConfigError(f"{shown!r}: {each!r} is no host and port")
        found.append(address)
    if mode == "server" and len(found) > 1:
        raise ConfigError(
            f"{shown!r} names several servers; that is for redis+sentinel://h1,h2/name and redis+cluster://h1,h2"
        )
    return tuple(found)


def _db(path: str, options: Mapping[str, str], mode: Mode, shown: str) -> int:
    text = path or options.get("db", "0")
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{shown!r}: the database must be a number such as /0, not {text!r}")
    if options.get("db", text) != text:
        raise ConfigError(f"{shown!r} names two databases, {text} and {options['db']}")
    if mode == "cluster" and int(text):
        raise ConfigError(f"{shown!r}: a cluster has only database 0")
    return int(text)


def _prefix(options: Mapping[str, str], shown: str) -> str:
    prefix = options.get("prefix", "headgate")
    if not prefix or any(character in prefix for character in "{}"):
        raise ConfigError(f"{shown!r}: the prefix must be a text without braces, not {prefix!r}")
    return prefix


def _partitions(options: Mapping[str, str], shown: str) -> int:
    text = options.get("partitions", "1")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_PARTITIONS:
        raise ConfigError(f"{shown!r}: partitions must be a number from 1 to {MOST_PARTITIONS}, not {text!r}")
    return int(text)
