"""The rule book as a connection sees it: read again whenever another process has changed it."""

from __future__ import annotations

from headgate.engine.contract import KeyNumbers, Limit, Override
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.statements import sql

COMPUTED_BITS = 32
"""The lower half of a version counts changes of computed numbers, the upper half all others."""
MOST_KNOWN = 100_000


def rules_version(connection: Connection) -> int:
    """How often the rules have changed."""
    return connection.execute(sql("rules_version")).get


class FileBook(RuleBook):
    """A rule book over a file. Computed numbers grow with the keys: they are read one by one, when they are asked for.

    `unsettled` are limits whose change has not been acted on for all keys yet. `terms` is the version of limits and
    overrides alone: which keys a job can hold depends on nothing else.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.unsettled: frozenset[str] = frozenset()
        self.terms: int | None = None
        self.looked_at_computed = 0
        self._known: dict[str, KeyNumbers | None] = {}

    def numbers_of(self, ident: str) -> KeyNumbers | None:
        if ident not in self._known:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            rows = self.connection.execute(sql("computed"), (ident,)).fetchall()
            self._known[ident] = _numbers(*rows[0]) if rows else None
        return self._known[ident]

    def changed(self) -> None:
        super().changed()
        self._known.clear()


class Rules:
    """Keeps one rule book for one connection."""

    def __init__(self) -> None:
        self.book: FileBook | None = None

    def current(self, connection: Connection, version: int) -> FileBook:
        """The rules in force for the transaction that is open now, in which they are at `version`."""
        book = self.book
        if book is None or book.version != version:
            book = self.book = self._renewed(connection, version >> COMPUTED_BITS)
        book.connection, book.version = connection, version
        return book

    def _renewed(self, connection: Connection, terms: int) -> FileBook:
        book = self.book
        if book is None or book.terms != terms:
            book = _read(connection)
            book.terms = terms
        else:
            book.changed()
        return book

    def forget(self) -> None:
        """What the book says may not have been committed."""
        self.book = None


def _read(connection: Connection) -> FileBook:
    book = FileBook(connection)
    book.limits = {row[0]: Limit(*row) for row in connection.execute(sql("limits"))}
    overrides = [Override(*row) for row in connection.execute(sql("overrides"))]
    book.overrides = {(o.name, o.value, o.tenant): o for o in overrides}
    book.unsettled = frozenset(name for name, _ in connection.execute(sql("unsettled")))
    return book


def _numbers(number: int, at: int) -> KeyNumbers:
    return KeyNumbers(at, number, at)
