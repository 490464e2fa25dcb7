"""How much a store keeps, and its longest script: asked of the store itself, beside Headgate."""

from typing import Any
from urllib.parse import urlsplit

US_PER_MS = 1000


def records(url: str) -> int:
    """Rows of all tables, or keys and their elements."""
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return _sqlite(url)
    if scheme.startswith("postgres"):
        return _postgres(url)
    return _redis(url)


def _sqlite(url: str) -> int:
    # The engine's own library: another one in this process would not see its locks, and remove its log on closing.
    import apsw

    connection = apsw.Connection(urlsplit(url).path[1:])
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    total = sum(connection.execute(f'SELECT count(*) FROM "{name}"').get for name in tables)
    connection.close()
    return total


def _postgres(url: str) -> int:
    import psycopg

    total = 0
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'headgate'"
        ).fetchall()
        for (name,) in tables:
            row = connection.execute(f'SELECT count(*) FROM headgate."{name}"'.encode()).fetchone()
            total += row[0] if row else 0
    return total


def _redis(url: str) -> int:
    import redis

    counted = {"hash": "hlen", "list": "llen", "set": "scard", "zset": "zcard", "stream": "xlen"}
    total = 0
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(count=1000):
            kind: Any = client.type(key)
            count = counted.get(kind.decode())
            total += getattr(client, count)(key) if count else 1
    return total


def longest_script(url: str) -> float:
    """Milliseconds of the longest command since the last call; 0 where there are none. From a millisecond on."""
    if not urlsplit(url).scheme.startswith(("redis", "valkey")):
        return 0.0
    import redis

    with redis.Redis.from_url(url) as client:
        found: Any = client.slowlog_get(1000)
        client.config_set("slowlog-log-slower-than", US_PER_MS)
        client.config_set("slowlog-max-len", 1000)
        client.slowlog_reset()
        return max((entry["duration"] / US_PER_MS for entry in found), default=0.0)
