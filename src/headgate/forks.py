"""Locks over a fork: a child inherits them as they were, perhaps held by a thread that it has not got."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """Something with locks."""

    def renew(self) -> None:
        """Make new ones: this is the child, which has no other thread yet."""
        ...


_renewables: WeakSet[Renewable] = WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have `thing.renew()` called in every child that is forked from now on."""
    _renewables.add(thing)


def _renew_all() -> None:
    for thing in list(_renewables):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
