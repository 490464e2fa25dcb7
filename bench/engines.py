"""The stores Headgate can be measured on."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.rows import Row
from bench.targets import TABLES


@dataclass(frozen=True)
class Engine:
    """A store: `fresh` makes an empty one for one measurement, by URL; Headgate and its peers get the same kind."""

    name: str
    fresh: Callable[[Path], AbstractContextManager[str]]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The table of this store."""
        return TABLES[self.name]


@contextmanager
def _sqlite(scratch: Path) -> Generator[str]:
    yield f"sqlite:///{scratch / 'bench.db'}"


@contextmanager
def _postgres(scratch: Path) -> Generator[str]:
    from bench.postgres import database

    with database() as url:
        yield url


@contextmanager
def _redis(scratch: Path) -> Generator[str]:
    from bench.redis_server import serve

    with serve(scratch) as url:
        yield url


ENGINES = {
    engine.name: engine
    for engine in (Engine("sqlite", _sqlite), Engine("redis", _redis), Engine("postgres", _postgres))
}
