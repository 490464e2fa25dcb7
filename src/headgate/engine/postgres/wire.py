"""Texts on their way to PostgreSQL and back. It stores every character but NUL, which travels as an escape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from headgate.keys import Key

ESCAPE = "\x1b"


def put(text: str) -> str:
    """A text as it is stored."""
    if "\0" not in text and ESCAPE not in text:
        return text
    return text.replace(ESCAPE, ESCAPE + "1").replace("\0", ESCAPE + "0")


def got(text: str) -> str:
    """A stored text as it was."""
    return text if ESCAPE not in text else text.replace(ESCAPE + "0", "\0").replace(ESCAPE + "1", ESCAPE)


def put_if(text: str | None) -> str | None:
    """One that may be missing."""
    return None if text is None else put(text)


def got_if(text: str | None) -> str | None:
    """One that may be missing."""
    return None if text is None else got(text)


def put_all(texts: Iterable[str]) -> list[str]:
    """Several."""
    return [put(text) for text in texts]


def got_all(texts: Sequence[str] | None) -> list[str]:
    """Several, or none."""
    return [] if texts is None else [got(text) for text in texts]


class Numbers(str):
    """An array of numbers, or of what is true, as PostgreSQL writes it: sent as a text and read by the server.

    Of all arrays, the driver knows only those of texts by itself. About any other it asks the server, on each new
    connection: that takes 14 ms, as long as all else until the first job starts.
    """

    __slots__ = ()

    @classmethod
    def of(cls, numbers: Iterable[int | float | None]) -> Self:
        """These, None among them."""
        return cls("{" + ",".join("NULL" if number is None else str(number) for number in numbers) + "}")


class Texts(str):
    """An array of texts, sent as one text and read by the server: the driver asks of each text whether it is an array,
    which costs more than all else that an exchange does for a job here."""

    __slots__ = ()

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Self:
        """These, as they are stored (`put`); None among them."""
        return cls("{" + ",".join(["NULL" if text is None else _quoted(text) for text in texts]) + "}")


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def put_error(text: str | None) -> str | None:
    """Error texts may hold anything, also what is not Unicode."""
    return None if text is None else put(text.encode(errors="backslashreplace").decode())


def put_key(ident: str) -> str:
    """A key's ident: the length of the tenant stands in it, so that its parts are escaped one by one."""
    if "\0" not in ident and ESCAPE not in ident:
        return ident
    key = Key.of(ident)
    return Key(put(key.name), put_if(key.value), put(key.tenant), key.rate).ident


def got_key(ident: str) -> str:
    """The ident as it was."""
    if ESCAPE not in ident:
        return ident
    key = Key.of(ident)
    return Key(got(key.name), got_if(key.value), got(key.tenant), key.rate).ident
