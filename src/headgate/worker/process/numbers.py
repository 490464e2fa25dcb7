"""What shows the numbers of worker processes. It is made in the room of metrics, which stands above this one: so a
supervisor is handed it, and a process is told its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from headgate.engine.contract import Lost
from headgate.worker.process.endpoints import Pages


class ProcessNumbers(Protocol):
    """The numbers of one process."""

    def pages(self) -> Pages:
        """What it answers: all of its own, or what a supervisor that shows the sums asks for."""
        ...

    def count(self, app: Any) -> None:
        """Begin to count, before any worker is made."""
        ...


class Answering(Protocol):
    """A process that may be asked."""

    @property
    def port(self) -> int | None: ...


class SupervisorNumbers(Protocol):
    """The numbers of all processes of one supervisor, those that are gone included."""

    def summed(self, processes: Sequence[Answering]) -> AbstractContextManager[Pages]:
        """Around the life of all processes."""
        ...

    def lost(self, lost: Lost) -> None:
        """The supervisor has told the store of workers that are gone; from any thread."""
        ...


class Silent:
    """No numbers are asked for."""

    def pages(self) -> Pages:
        """None."""
        return {}

    def count(self, app: Any) -> None:
        """Nothing."""


def numbers_of(name: str, *, supervised: bool) -> ProcessNumbers:
    """What `module:class` makes; without a name nothing is counted."""
    if not name:
        return Silent()
    module, _, made = name.partition(":")
    return getattr(importlib.import_module(module), made)(supervised=supervised)
