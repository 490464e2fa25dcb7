"""The engines under test, by name. A new engine joins the conformance suite and the model with one entry here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from headgate.engine.contract import Engine, Settings
from headgate.engine.memory import MemoryEngine
from headgate.engine.redis import RedisEngine
from headgate.engine.redis.url import parse
from headgate.engine.sqlite import SqliteEngine
from tests.support import postgres_server, postgres_sessions, redis_faults
from tests.support.redis_leaks import check_and_clear
from tests.support.redis_servers import binary, fresh_prefix, shared
from tests.support.sqlite_files import put_empty_store


class Server(ABC):
    """One empty store, and engines on it. `ledger` is where a test breaks a claim in the middle."""

    ledger: str

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.engines: list[Engine] = []

    @abstractmethod
    def connect(self) -> Engine:
        """One more engine on the same store, not yet opened."""

    async def engine(self) -> Engine:
        """One more open engine on the same store."""
        engine = self.connect()
        await engine.open()
        self.engines.append(engine)
        return engine

    async def close(self) -> None:
        """Close every engine."""
        for engine in self.engines:
            await engine.close()

    @contextmanager
    def broken(self, step: Literal["start", "park"]) -> Generator[None]:
        """Meanwhile every step that starts (or parks) a job fails in the middle: "broken on purpose"."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{self.ledger}.{step}", _break)
            yield


def _break(*args: object, **kwargs: object) -> None:
    raise RuntimeError("broken on purpose")


class MemoryServer(Server):
    """A memory store lives in its engine, so that every further engine is the same one."""

    ledger = "headgate.engine.memory.ledger.MemoryLedger"

    def connect(self) -> Engine:
        return self.engines[0] if self.engines else MemoryEngine(self.settings)


class SqliteServer(Server):
    """A file in a temporary directory."""

    ledger = "headgate.engine.sqlite.ledger.SqliteLedger"

    def connect(self) -> Engine:
        file = self.directory / "jobs.db"
        if not file.exists():
            put_empty_store(file)
        return SqliteEngine(file, self.settings)


class PostgresServer(Server):
    """A schema of the session's server."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        super().__init__(directory, settings)
        self.process = postgres_server.shared_server()
        self.schema = postgres_server.borrow_schema()
        self.patch = postgres_sessions.kept()

    def connect(self) -> Engine:
        from tests.support.postgres_met import MetPostgresEngine

        return MetPostgresEngine(self.process.dsn, self.settings, schema=self.schema)

    async def close(self) -> None:
        await super().close()
        self.patch.undo()
        postgres_server.give_back_schema(self.schema)

    @contextmanager
    def broken(self, step: Literal["start", "park"]) -> Generator[None]:
        """By a trigger: starts fail when they are written, parked newcomers already when their second is stored."""
        schema = '"' + self.schema.replace('"', '""') + '"'
        table, when = ("live", "NEW.state = 'running'") if step == "start" else ("jobs", "NEW.id = 'j2'")
        execute = self.process.execute
        execute(
            f"CREATE FUNCTION {schema}.broken() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'broken on purpose'; END $$"
        )
        execute(
            f"CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON {schema}.{table} FOR EACH ROW WHEN ({when}) "
            f"EXECUTE FUNCTION {schema}.broken()"
        )
        yield
        execute(f"DROP FUNCTION {schema}.broken CASCADE")


class RedisServer(Server):
    """A fresh prefix on a server that the session shares. What is left at the end must be in the catalogue."""

    kind = "valkey"

    def __init__(self, directory: Path, settings: Settings) -> None:
        super().__init__(directory, settings)
        self.prefix = fresh_prefix()
        self.process = shared(self.kind)
        self.url = f"{self.process.url}?prefix={self.prefix}"

    def connect(self) -> Engine:
        return RedisEngine(parse(self.url, self.url), self.settings)

    @contextmanager
    def broken(self, step: Literal["start", "park"]) -> Generator[None]:
        """By scripts of which one function raises."""
        with redis_faults.broken(step):
            yield

    async def close(self) -> None:
        await super().close()
        check_and_clear(self.process, self.prefix)


class Redis6Server(RedisServer):
    """The oldest one that is supported."""

    kind = "redis6"


class Redis7Server(RedisServer):
    """Where it is installed."""

    kind = "redis7"


SERVERS: dict[str, type[Server]] = {"memory": MemoryServer, "sqlite": SqliteServer}
for _server in (RedisServer, Redis6Server, Redis7Server):
    if binary(_server.kind):
        SERVERS[_server.kind] = _server
if postgres_server.available():
    SERVERS["postgres"] = PostgresServer
