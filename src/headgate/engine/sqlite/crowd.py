"""Those that wait already, as a newcomer without room asks for them (rule 19).

How many they are is counted once per transaction and kept in accord with the arrivals of the transaction; whatever may
take a job out of a line makes the count forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.rows import FileJob
from headgate.engine.sqlite.statements import sql


class LineCounts:
    """How many stand in each line, counted as far as was asked for."""

    def __init__(self, count: Callable[[str, int], int]) -> None:
        self._count = count
        self._known: dict[str, tuple[int, bool]] = {}

    def up_to(self, line: str, most: int) -> int:
        """How many, at most so many."""
        count, exact = self._known.get(line, (0, False))
        if not exact and count < most:
            count = self._count(line, most)
            self._known[line] = count, count < most
        return min(count, most)

    def one_more(self, line: str) -> None:
        """A job joins the line."""
        if line in self._known:
            count, exact = self._known[line]
            self._known[line] = count + 1, exact

    def forget(self, line: str) -> None:
        """Jobs may have left the line."""
        self._known.pop(line, None)


class FileCrowd:
    """`flush` writes what the transaction has decided; `job` reads a whole job, unless its row makes no sense."""

    def __init__(
        self,
        connection: Connection,
        flush: Callable[[], None],
        job: Callable[[int], FileJob | None],
    ) -> None:
        self._connection = connection
        self._flush = flush
        self._job = job
        self.waiting = LineCounts(lambda key, most: self._counted("count_waiting", key, most))
        self.backlog = LineCounts(lambda queue, most: self._counted("count_backlog", queue, most))

    def all_waiting(self, key: str, most: int) -> Sequence[FileJob]:
        """Jobs of all queues that wait on a key, in order of queue and line."""
        self._flush()
        rows = self._connection.execute(sql("all_waiting"), (key, most)).fetchall()
        found = [self._job(seq) for (seq,) in rows]
        return [job for job in found if job is not None]

    def first(self, statement: str, line: str) -> FileJob | None:
        """The job that a statement finds."""
        self._flush()
        while (seq := self._connection.execute(sql(statement), (line,)).get) is not None:
            if (job := self._job(seq)) is not None:
                return job
        return None

    def _counted(self, statement: str, line: str, most: int) -> int:
        self._flush()
        return self._connection.execute(sql(statement), (line, most)).get
