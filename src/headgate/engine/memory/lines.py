"""Sorted lines of jobs: which is next."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Rank = TypeVar("Rank", bound=tuple[int, ...])
Member = TypeVar("Member")


class SortedLine(Generic[Rank, Member]):
    """Members in the order of their ranks. Ranks are unique (they end in the job's arrival number)."""

    __slots__ = ("_members", "_ranks")

    def __init__(self) -> None:
        self._ranks: list[Rank] = []
        self._members: dict[Rank, Member] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[Member]:
        return (self._members[rank] for rank in self._ranks)

    def add(self, rank: Rank, member: Member) -> None:
        """Put a member in its place."""
        insort(self._ranks, rank)
        self._members[rank] = member

    def remove(self, rank: Rank) -> None:
        """Take a member out."""
        del self._ranks[bisect_left(self._ranks, rank)]
        del self._members[rank]

    def first(self, most: int = 1) -> list[Member]:
        """The first members."""
        return [self._members[rank] for rank in self._ranks[:most]]

    def until(self, rank: Rank, most: int) -> list[Member]:
        """The first members whose rank is below this one."""
        return [self._members[r] for r in self._ranks[: min(bisect_left(self._ranks, rank), most)]]

    def place(self, rank: Rank) -> int:
        """How many stand before this rank."""
        return bisect_left(self._ranks, rank)

    def tail(self) -> Rank | None:
        """The rank of the last member."""
        return self._ranks[-1] if self._ranks else None

    def head(self) -> Rank | None:
        """The rank of the first member."""
        return self._ranks[0] if self._ranks else None
