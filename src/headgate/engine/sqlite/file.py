"""An open SQLite file in this process: one thread that writes and watches for other processes, one that reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headgate.engine.contract import Settings
from headgate.engine.deadline import seconds
from headgate.engine.sqlite.checkpoints import Checkpoints
from headgate.engine.sqlite.connection import Connection, Synchronous, check_library, connect
from headgate.engine.sqlite.migrate import migrate
from headgate.engine.sqlite.rule_book import Rules, rules_version
from headgate.engine.sqlite.thread import ConnectionThread
from headgate.engine.sqlite.transaction import Transaction
from headgate.engine.sqlite.waking import Watchers
from headgate.engine.sqlite.writer import Writer

T = TypeVar("T")
Work = Callable[[Transaction], T]


class File:
    """Opened by its constructor, which raises what is wrong with the file. Belongs to the process that opened it."""

    def __init__(
        self, path: str, settings: Settings, synchronous: Synchronous, clock: Callable[[], int]
    ) -> None:
        check_library()
        self.process = os.getpid()
        self._path = path
        self._settings = settings
        self._synchronous: Synchronous = synchronous
        self._clock = clock
        self._writing, self._reading = Rules(), Rules()
        self.watchers = Watchers(path)
        self._writer = Writer(
            "headgate-sqlite-write",
            path,
            self._connect_and_migrate,
            rolled_back=self._writing.forget,
            lookout=self.watchers,
        )
        self.watchers.nudge = self._writer.nudge
        self._reader = ConnectionThread("headgate-sqlite-read", path, self._connect)
        self._checkpoints = Checkpoints(lambda: self._reader.post(self._checkpoints.copy))
        self._writer.start()
        try:
            self._reader.start()
        except BaseException:
            self._writer.stop()
            raise

    def close(self) -> None:
        """Finish what was handed in and end the threads."""
        self.watchers.stop()
        self._reader.stop()
        self._writer.stop()

    async def write(
        self,
        work: Work[T],
        now: int | None,
        glance: Work[T | None] | None = None,
        opening: Callable[[Connection], int] = rules_version,
        inline: bool = False,
    ) -> T:
        """Run `work` in one transaction; sleepers that it concerns are woken after the commit.

        `glance` may answer without a transaction when there is nothing to write. `opening` is what is read first.
        `brief` work takes a fraction of a millisecond and waits for no disk.
        """
        done: list[Transaction] = []

        def operation() -> T:
            transaction = self._transaction(self._writer, self._writing, now, opening)
            result = work(transaction)
            transaction.finish()
            done[:] = [transaction]
            return result

        signal, left = partial(self._signal, done), seconds(self._settings)
        if inline and not self._checkpoints.due:
            return await self._writer.run_inline(operation, left, signal)
        look = (
            None
            if glance is None
            else lambda: glance(self._transaction(self._writer, self._writing, now, opening))
        )
        return await self._writer.run(operation, left, look, signal)

    async def read(self, work: Work[T], now: int | None) -> T:
        """Run `work` over one consistent view of the file."""

        def operation() -> T:
            execute = self._reader.connection.execute
            execute("BEGIN")
            try:
                return work(self._transaction(self._reader, self._reading, now, rules_version))
            finally:
                execute("COMMIT")

        return await self._reader.run(operation, seconds(self._settings))

    def _transaction(
        self, thread: ConnectionThread, rules: Rules, now: int | None, opening: Callable[[Connection], int]
    ) -> Transaction:
        book = rules.current(thread.connection, opening(thread.connection))
        return Transaction(thread.connection, book, self._settings, self._clock() if now is None else now)

    def _signal(self, done: list[Transaction]) -> None:
        for transaction in done:
            self.watchers.signal(
                transaction.ledger.readied.values(), workers=transaction.call_workers, ended=transaction.ended
            )

    def _connect(self) -> Connection:
        return connect(self._path, self._synchronous, self._settings.busy_timeout)

    def _connect_and_migrate(self) -> Connection:
        connection = self._connect()
        migrate(connection, self._path, self._settings.busy_timeout)
        connection.set_wal_hook(self._checkpoints.committed)
        return connection
