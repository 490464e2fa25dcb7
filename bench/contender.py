"""A job queue as the workloads see it: what each runner has to say about its system, and no more.

Runs in the peers' environments too, so this module is standard library only.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass


def _nothing(n: int) -> None: ...


async def _nothing_limited(key: int) -> None: ...


@dataclass(frozen=True)
class Jobs:
    """What the two tasks of a contender do. The second is limited: at most `most` of each of `keys` keys at once."""

    plain: Callable[[int], None] = _nothing
    limited: Callable[[int], Awaitable[None]] = _nothing_limited
    keys: int = 1
    most: int = 1


class Contender(ABC):
    """One client, and on request one worker, on the store at `url`. Systems without limits leave out the limited jobs.

    Methods are coroutines also where the system is synchronous: a coroutine that awaits nothing costs well under a
    microsecond, and the workloads exist once.
    """

    def __init__(self, url: str, jobs: Jobs, concurrency: int = 100) -> None:
        self.url = url
        self.jobs = jobs
        self.concurrency = concurrency

    how = "defaults"
    """The settings, for the record."""

    async def install(self) -> None:  # noqa: B027
        """Make an empty store ready, where that is a step of its own."""

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Connected, and ready for everything below; nothing to do for a system that connects by itself."""
        return nullcontext()

    @abstractmethod
    async def enqueue(self, n: int) -> None:
        """One plain job."""

    async def enqueue_many(self, count: int) -> None:
        """Plain jobs, in the fastest way there is."""
        for n in range(count):
            await self.enqueue(n)

    async def enqueue_limited(self, keys: Iterable[int]) -> None:
        """A limited job for each key, in this order."""
        raise NotImplementedError(f"{type(self).__name__} has no limits")

    @abstractmethod
    def working(self) -> AbstractAsyncContextManager[object]:
        """A worker runs meanwhile."""
