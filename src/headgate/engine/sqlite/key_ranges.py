"""Walking keys in the order of their idents, which is the order of the indexes.

An ident begins with the kind and the tenant, so the keys of one limit are one short range per tenant. The walk leaps
from tenant to tenant and reads nothing of other limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from headgate.keys import Key

Read = Callable[[str, str | None, int], list[str]]
"""`read(first, below, most)`: the next keys of an index from `first` on."""
Span = tuple[str, str]
"""A range of keys: the first, and the one below which it ends."""

LAST = "\U0010ffff"
"""Behind every character that a key may go on with."""


class Page(NamedTuple):
    """Keys, and where to go on; None at the end."""

    keys: list[str]
    rest: str | None


def just_after(key: str) -> str:
    """The first text behind a key."""
    return key + "\0"


def parsed(ident: str) -> Key | None:
    """The parts of an ident; None if it is garbled."""
    try:
        return Key.of(ident)
    except (ValueError, IndexError):
        return None


def keys_of(
    read: Read,
    name: str,
    value: str | None = None,
    tenant: str | None = None,
    start: str = "",
    most: int = 1000,
) -> Page:
    """Keys of a limit in order: all of them, or those with a value, of any tenant or of one."""
    found: list[str] = []
    prefixes = _prefixes(read, start) if tenant is None else _both_kinds(tenant)
    for leaps, prefix in enumerate(prefixes, 1):
        for first, below in _ranges(prefix, name, value):
            if below > start:
                found += read(max(first, start), below, most - len(found))
            if len(found) >= most:
                return Page(found, just_after(found[-1]))
        if leaps >= most:
            return Page(found, prefix + LAST)
    return Page(found, None)


def _both_kinds(tenant: str) -> list[str]:
    return [f"{kind}{len(tenant)}:{tenant}" for kind in "cr"]


def _prefixes(read: Read, start: str) -> Iterator[str]:
    """Each kind and tenant that has keys, from the one that `start` belongs to."""
    position = start
    while head := read(position, None, 1):
        key = parsed(head[0])
        prefix = head[0] if key is None else head[0][: len(head[0]) - len(key.text)]
        if key is not None:
            yield prefix
        position = prefix + LAST


def _ranges(prefix: str, name: str, value: str | None) -> list[Span]:
    """Where the keys of a limit stand among those of one tenant: the bare name, and apart from it those with values."""
    if value is not None:
        return [(f"{prefix}{name}={value}", just_after(f"{prefix}{name}={value}"))]
    return [(prefix + name, just_after(prefix + name)), (f"{prefix}{name}=", f"{prefix}{name}>")]


def spans_of(read: Read, name: str) -> Iterator[Span]:
    """All that there is of a limit, as ranges of keys."""
    for prefix in _prefixes(read, ""):
        yield from _ranges(prefix, name, None)


def by_text(read: Read, name: str, after: tuple[str, str], most: int) -> list[Key]:
    """The next keys of a limit in the order of the listing: text, then tenant. Costs an index step per tenant."""
    text, tenant = after
    lines = [_line(read, prefix, name, text, tenant, most) for prefix in _prefixes(read, "")]
    return list(islice(merge(*lines, key=lambda key: (key.text, key.tenant)), most))


def _line(read: Read, prefix: str, name: str, text: str, tenant: str, most: int) -> list[Key]:
    mine = Key.of(prefix + name).tenant
    start = prefix + text if mine > tenant else just_after(prefix + text)
    found: list[str] = []
    for first, below in _ranges(prefix, name, None):
        if below > start and len(found) < most:
            found += read(max(first, start), below, most - len(found))
    return [Key.of(ident) for ident in found]
