"""Questions in SQL over the file: jobs, and what holds and waits, through views; the small tables as the engine reads
them.

Each question has connections of its own, on a thread of its own, and sees one state of the file; it is in nothing's
way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import closing
from typing import Any, TypeVar, cast

from headgate.engine.contract import Rows, Settings
from headgate.engine.sqlite import listing, overview, reading
from headgate.engine.sqlite.connection import Connection, connect_to_read, translated
from headgate.engine.sqlite.rule_book import Rules, rules_version
from headgate.engine.sqlite.session import Session
from headgate.engine.sqlite.transaction import Transaction
from headgate.engine.sqlite.views import BENEATH, views
from headgate.engine.tables import Bridge, Question, create_tables
from headgate.engine.tables.rows import Row, limit_row, queue_row, worker_row
from headgate.engine.tables.source import Wanted

T = TypeVar("T")

COMPUTED = ("limits", "queues", "workers")
"""What the file holds no rows of, as they are shown."""


async def ask(
    path: str, settings: Settings, clock: Callable[[], int], sql: str, limit: int, timeout: int
) -> Rows:
    """Answer a question over the file."""
    question = Question(sql, limit, timeout)

    def answer() -> Rows:
        session = Session(path, lambda: connect_to_read(path, settings.busy_timeout))
        try:
            # No fork falls into this block: the second connection needs no session of its own.
            with (
                translated(path),
                session as connection,
                closing(connect_to_read(path, settings.busy_timeout)) as beside,
            ):
                for view in views().values():
                    connection.execute(view)
                source = SmallTables(beside, settings, clock)
                create_tables(connection, source, at_once, COMPUTED)
                connection.execute("PRAGMA query_only = 1")
                return question.answer(connection, BENEATH)
        finally:
            session.close()

    return await Bridge(question).on_thread(answer)


class SmallTables:
    """Reads what has a row per limit, queue or worker, on a connection without views."""

    def __init__(self, connection: Connection, settings: Settings, clock: Callable[[], int]) -> None:
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._rules = Rules()

    async def pages(self, table: str, wanted: Wanted) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table, all at once."""
        book = self._rules.current(self._connection, rules_version(self._connection))
        transaction = Transaction(self._connection, book, self._settings, self._clock())
        match table:
            case "limits":
                found = listing.limits(transaction, wanted.get("name"), None, None)
                yield [limit_row(status) for status in found]
            case "queues":
                yield [queue_row(queue) for queue in overview.queues(transaction, None)]
            case "workers":
                yield [worker_row(worker) for worker in reading.workers(transaction)]
            case _:
                raise LookupError(table)


def at_once(read: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        read.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("a read of the file waits")
