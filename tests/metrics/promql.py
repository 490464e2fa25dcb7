"""A modest reader of PromQL: whether an expression can be parsed, and which series it selects.

It knows selectors with matchers and ranges, functions, aggregations with `by` and `without`, binary operators with `on`
and `ignoring`, numbers and parentheses: what the dashboard and the alerts are made of. All else is an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

AGGREGATIONS = {"sum", "max", "min", "avg", "count"}
FUNCTIONS = {"rate": 1, "increase": 1, "histogram_quantile": 2, "absent": 1}
BINARY = {"+", "-", "*", "/", ">", "<", ">=", "<=", "==", "!=", "and", "or", "unless"}
RANGED = {"rate", "increase"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])|(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_:][\w:]*)
    |(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/<>=(){},]))""",
    re.VERBOSE,
)


class Selector(NamedTuple):
    """A series by name, the labels that its matchers and groupings name, and whether it has a range."""

    name: str
    labels: frozenset[str]
    ranged: bool


class Unreadable(ValueError):
    """The expression is wrong, or beyond this reader."""


class Reader:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        self.found: list[Selector] = []
        self.grouped: list[tuple[frozenset[str], list[Selector]]] = []
        self._tokens = _tokens(text)
        self._at = 0

    def read(self) -> Reader:
        self._expression()
        if self._at < len(self._tokens):
            raise Unreadable(f"unexpected {self._tokens[self._at][1]!r}")
        return self

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> tuple[str, str]:
        if self._at >= len(self._tokens) or (wanted and self._peek() not in wanted):
            raise Unreadable(f"{self._peek()!r} where {' or '.join(wanted) or 'more'} is needed")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expression(self) -> None:
        self._operand()
        while self._peek() in BINARY:
            self._take()
            if self._peek() in ("on", "ignoring"):
                self._take()
                self._names()
            self._operand()

    def _operand(self) -> None:
        kind, text = self._take()
        if text == "(":
            self._expression()
            self._take(")")
        elif kind == "name" and text in AGGREGATIONS:
            self._aggregation()
        elif kind == "name" and self._peek() == "(":
            self._call(text)
        elif kind == "name":
            self._selector(text)
        elif kind != "number":
            raise Unreadable(f"{text!r} is no operand")

    def _aggregation(self) -> None:
        labels: frozenset[str] = frozenset()
        if self._peek() in ("by", "without"):
            self._take()
            labels = self._names()
        before = len(self.found)
        self._take("(")
        self._expression()
        self._take(")")
        self.grouped.append((labels, self.found[before:]))

    def _call(self, function: str) -> None:
        if function not in FUNCTIONS:
            raise Unreadable(f"function {function!r} is not known")
        self._take("(")
        before = len(self.found)
        for number in range(FUNCTIONS[function]):
            if number:
                self._take(",")
            self._expression()
        self._take(")")
        for selector in self.found[before:]:
            if function in RANGED and not selector.ranged:
                raise Unreadable(f"{function}() of {selector.name} without a range")

    def _selector(self, name: str) -> None:
        labels = set[str]()
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                labels.add(self._take()[1])
                self._take("=", "!=", "=~", "!~")
                if self._take()[0] != "text":
                    raise Unreadable(f"a matcher of {name} compares with no text")
                if self._peek() != "}":
                    self._take(",")
            self._take("}")
        ranged = self._at < len(self._tokens) and self._tokens[self._at][0] == "range"
        self._at += ranged
        self.found.append(Selector(name, frozenset(labels), ranged))

    def _names(self) -> frozenset[str]:
        self._take("(")
        names = {self._take()[1]}
        while self._peek() == ",":
            self._take()
            names.add(self._take()[1])
        self._take(")")
        return frozenset(names)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"{text[at : at + 20]!r} cannot be read")
        at = match.end()
        found.append((match.lastgroup or "", match.group(match.lastgroup or "")))
    return found
