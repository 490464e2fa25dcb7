"""Pages of lists: `size` at most, and `next`, a cursor that is passed back as `after`."""

from __future__ import annotations

import base64
from typing import Any, Generic, TypeVar

import msgspec

from headgate.web.problems import Refusal

T = TypeVar("T")
MOST_SIZE = 1000


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page. `next` is null on the last one."""

    items: list[T]
    next: str | None


def check_size(size: int) -> int:
    """How many records one page holds."""
    if not 1 <= size <= MOST_SIZE:
        raise Refusal("invalid", f"size={size}: from 1 to {MOST_SIZE:,}")
    return size


def cursor(place: tuple[str, ...]) -> str:
    """A place in a list, as text that needs no escaping."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place(given: str, parts: int) -> tuple[str, ...]:
    """The place that a cursor names."""
    try:
        raw = base64.urlsafe_b64decode(given + "=" * (-len(given) % 4))
        found: tuple[Any, ...] = msgspec.json.decode(raw, type=tuple[str, ...])
    except (ValueError, msgspec.MsgspecError):
        found = ()
    if len(found) != parts:
        raise Refusal("invalid", f"after={given!r} is not a cursor that this server has given")
    return found
