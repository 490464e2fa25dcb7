"""The rule book as a connection sees it: read again whenever another process has changed it."""

from __future__ import annotations

from headgate.engine.contract import KeyNumbers, Limit, Override, ShareWeight
from headgate.engine.rules.admission import Gate
from headgate.engine.rules.in_force import RuleBook
from headgate.engine.sqlite.connection import Connection, Values
from headgate.engine.sqlite.statements import sql
from headgate.keys import Key

NUMBER_BITS = 32
"""The lower half of a version counts changes of keys and shares, the upper half those of limits and overrides."""
MOST_KNOWN = 100_000


def rules_version(connection: Connection) -> int:
    """How often the rules have changed."""
    return connection.execute(sql("rules_version")).get


class FileBook(RuleBook):
    """A rule book over a file. Numbers of keys grow with the keys: they are read one by one, when they are asked for.

    `bounded` are the queues whose backlog is. `unsettled` are limits whose change has not been acted on for all keys
    yet. `terms` is the version of limits and overrides alone: which keys a job can hold depends on nothing else.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.unsettled: frozenset[str] = frozenset()
        self.terms: int | None = None
        self.bounded: frozenset[str] = frozenset()
        self.looked_at_numbers = 0
        self._known: dict[str, KeyNumbers | None] = {}
        self._next_term: int | None = None
        self._knows_next_term = False

    def numbers_of(self, ident: str) -> KeyNumbers | None:
        if ident not in self._known:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            rows = self.connection.execute(sql("numbers"), (ident,)).fetchall()
            self._known[ident] = KeyNumbers(*rows[0]) if rows else None
        return self._known[ident]

    def changed(self) -> None:
        super().changed()
        self._known.clear()
        self._knows_next_term = False

    @property
    def next_term(self) -> int | None:
        """When the next weight runs out or the next throttled key is open wide."""
        if not self._knows_next_term:
            times = [weight.until for weight in self.weights.values() if weight.until is not None]
            times += [gate.open_at(self.number(Key.of(key))) for key, gate in self.gates.items()]
            self._next_term, self._knows_next_term = min(times, default=None), True
        return self._next_term

    def read_limits(self) -> None:
        """Read limits and overrides."""
        self.limits = {row[0]: _limit(row) for row in self.connection.execute(sql("limits"))}
        overrides = [Override(*row) for row in self.connection.execute(sql("overrides"))]
        self.overrides = {(o.name, o.value, o.tenant): o for o in overrides}
        self.unsettled = frozenset(name for name, _ in self.connection.execute(sql("unsettled")))
        self.find_bounded()

    def find_bounded(self) -> None:
        """Which queues bound their backlog."""
        self.bounded = frozenset(
            name.removeprefix("queue:")
            for name, limit in self.limits.items()
            if limit.max_waiting is not None and name.startswith("queue:")
        )

    def read_numbers(self) -> None:
        """Read gates and weights; forget the numbers of keys."""
        execute = self.connection.execute
        self.gates = {key: Gate(opens_at, step) for key, opens_at, step in execute(sql("gates"))}
        self.weights = {row[0]: ShareWeight(*row) for row in execute(sql("weights"))}
        self.declared_weights = {row[0]: ShareWeight(*row) for row in execute(sql("declared_weights"))}
        self.changed()


class Rules:
    """Keeps one rule book for one connection."""

    def __init__(self) -> None:
        self.book: FileBook | None = None

    def current(self, connection: Connection, version: int) -> FileBook:
        """The rules in force for the transaction that is open now, in which they are at `version`."""
        book = self.book
        if book is None or book.version != version:
            book = self.book = self._renewed(connection, version >> NUMBER_BITS)
        book.connection, book.version = connection, version
        return book

    def _renewed(self, connection: Connection, terms: int) -> FileBook:
        book = self.book
        if book is None or book.terms != terms:
            book = FileBook(connection)
            book.read_limits()
            book.terms = terms
        book.connection = connection
        book.read_numbers()
        return book

    def forget(self) -> None:
        """What the book says may not have been committed."""
        self.book = None


def _limit(row: Values) -> Limit:
    return Limit(*row[:6], *map(bool, row[6:10]), *row[10:])
