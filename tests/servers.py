"""The engines under test, by name. A new engine joins the conformance suite and the model with one entry here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from headgate.engine.contract import Engine, Settings
from headgate.engine.memory import MemoryEngine
from headgate.engine.sqlite import SqliteEngine


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


class MemoryServer(Server):
    """A memory store lives in its engine, so that every further engine is the same one."""

    ledger = "headgate.engine.memory.ledger.MemoryLedger"

    def connect(self) -> Engine:
        return self.engines[0] if self.engines else MemoryEngine(self.settings)


class SqliteServer(Server):
    """A file in a temporary directory."""

    ledger = "headgate.engine.sqlite.ledger.SqliteLedger"

    def connect(self) -> Engine:
        return SqliteEngine(self.directory / "jobs.db", self.settings)


SERVERS: dict[str, type[Server]] = {"memory": MemoryServer, "sqlite": SqliteServer}
