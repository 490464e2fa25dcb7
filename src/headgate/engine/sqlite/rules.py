"""The rule book as a connection sees it: read again whenever another process has changed it."""

from __future__ import annotations

from headgate.engine.contract import Limit, Override
from headgate.engine.rulebook import RuleBook
from headgate.engine.sqlite.connection import Connection
from headgate.engine.sqlite.statements import sql


def rules_version(connection: Connection) -> int:
    """How often the rules have changed."""
    return connection.execute(sql("rules_version")).get


class Rules:
    """Keeps one rule book for one connection."""

    def __init__(self) -> None:
        self.book = RuleBook()

    def current(self, connection: Connection, version: int) -> RuleBook:
        """The rules in force for the transaction that is open now, in which they are at `version`."""
        if version != self.book.version:
            self.book = _read(connection)
            self.book.version = version
        return self.book

    def forget(self) -> None:
        """What the book says may not have been committed."""
        self.book.version = None


def _read(connection: Connection) -> RuleBook:
    book = RuleBook()
    book.limits = {row[0]: Limit(*row) for row in connection.execute(sql("limits"))}
    overrides = [Override(*row) for row in connection.execute(sql("overrides"))]
    book.overrides = {(o.name, o.value, o.tenant): o for o in overrides}
    book.computed = {key: (number, at) for key, number, at in connection.execute(sql("computed"))}
    return book
