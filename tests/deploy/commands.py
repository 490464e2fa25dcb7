"""What is said in the words of a command."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cli.times import duration

GRACE = "30s"
"""What it is unless a command says otherwise."""


def option_of(words: Sequence[str], name: str) -> str | None:
    """The value of an option; None if it is not there."""
    return words[words.index(name) + 1] if name in words else None


def port_of(words: Sequence[str], name: str) -> int:
    """The port of an option that is [HOST:]PORT."""
    address = option_of(words, name)
    assert address is not None
    return int(address.rpartition(":")[2])


def grace_of(words: Sequence[str]) -> float:
    """For how many seconds a worker waits when it is stopped."""
    return duration(option_of(words, "--grace") or GRACE, "--grace")
