"""The stores Headgate can be measured on, and the peers that use the same store."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Engine:
    """A store: a fresh one in an empty directory, by URL, and which peers are measured beside Headgate."""

    name: str
    fresh: Callable[[Path], AbstractContextManager[str]]
    peers: tuple[str, ...]


@contextmanager
def _sqlite(scratch: Path) -> Generator[str]:
    yield f"sqlite:///{scratch / 'headgate.db'}"


@contextmanager
def _postgres(scratch: Path) -> Generator[str]:
    from bench.postgres import url

    yield url(scratch)


@contextmanager
def _redis(scratch: Path) -> Generator[str]:
    from bench.redis_server import serve

    with serve(scratch) as url:
        yield url


ENGINES = {
    "sqlite": Engine("sqlite", _sqlite, peers=("flexiq", "huey", "huey-normal")),
    "redis": Engine("redis", _redis, peers=()),
    "postgres": Engine("postgres", _postgres, peers=()),
}
