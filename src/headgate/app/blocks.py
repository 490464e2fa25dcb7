"""The blocks that enqueues stand in: `with app.transaction(connection)` and `with app.on_commit()`.

A block counts for the code inside it and for the tasks and threads that this code starts, while it lasts; the innermost
one decides. It belongs to one app, and to one attempt: what a worker runs meanwhile is no part of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from headgate.app.client import Client
from headgate.app.handle import JobHandle, Origin
from headgate.engine.contract import Enqueued
from headgate.errors import HeadgateError
from headgate.hooks.context import CURRENT
from headgate.job import NewJob

_BLOCKS: ContextVar[tuple[Block, ...]] = ContextVar("headgate_blocks", default=())

Error = BaseException | None


class Block(ABC):
    """What decides where the jobs go that are enqueued inside."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._attempt = CURRENT.get(None)
        self._state = "new"

    @abstractmethod
    async def enqueue(self, jobs: Sequence[NewJob]) -> list[JobHandle[Any]]:
        """Take up jobs that are enqueued inside."""

    @abstractmethod
    async def begin(self, *, waits: bool) -> None:
        """Refuse what cannot work; `waits` in a plain `with`, whose body cannot await."""

    async def end(self, error: Error) -> None:  # noqa: B027 - most blocks have nothing to do
        """The body has ended, by this exception or in good order."""

    def holds_for(self, client: Client) -> bool:
        """Whether the calling code enqueues into it."""
        return self._state == "open" and self._client is client and self._attempt is CURRENT.get(None)

    def _enter(self) -> None:
        _BLOCKS.set((*_BLOCKS.get(), self))
        self._state = "open"

    def _leave(self) -> None:
        # No token: a framework may enter and leave a block in two contexts. Closed, it counts in neither.
        _BLOCKS.set(tuple(block for block in _BLOCKS.get() if block is not self))
        self._state = "over"

    def _refuse_twice(self) -> None:
        if self._state != "new":
            raise HeadgateError(
                f"this {type(self).__name__} block was entered before; make one for each `with`"
            )

    async def __aenter__(self) -> Self:
        self._refuse_twice()
        await self.begin(waits=False)
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: Error, trace: TracebackType | None
    ) -> None:
        self._leave()
        await self.end(error)

    def __enter__(self) -> Self:
        self._refuse_twice()
        self._client.sync_loop.run(self.begin(waits=True))
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Error, trace: TracebackType | None) -> None:
        self._leave()
        self._client.sync_loop.run(self.end(error))


def block_around(client: Client) -> Block | None:
    """The innermost block that the calling code enqueues into."""
    return next((block for block in reversed(_BLOCKS.get()) if block.holds_for(client)), None)


def handles(client: Client, stored: Sequence[Enqueued], origin: Origin | None) -> list[JobHandle[Any]]:
    """What callers get for jobs that a store has taken."""
    return [JobHandle(client, one.id, created=one.created, origin=origin) for one in stored]


def enqueue(
    client: Client, jobs: Sequence[NewJob], connection: Any = None
) -> Awaitable[list[JobHandle[Any]]]:
    """The one way of jobs into a store, with what the app has put around it."""
    enqueueing = client.hooks.enqueueing
    if enqueueing.around:
        return enqueueing.surrounded(jobs, lambda: _enqueue(client, jobs, connection))
    return _enqueue(client, jobs, connection)


async def _enqueue(client: Client, jobs: Sequence[NewJob], connection: Any) -> list[JobHandle[Any]]:
    """On the connection that was named, as the block around says, or at once."""
    if not client.hooks.enqueueing.idle:  # here, where the caller's context is, not at the end of a block
        jobs = await client.hooks.enqueueing.prepare(jobs)
    if connection is not None:
        return handles(client, await client.enqueue(jobs, connection), IN_A_TRANSACTION)
    block = block_around(client)
    if block is not None:
        return await block.enqueue(jobs)
    return handles(client, await client.enqueue(jobs), None)


class _InATransaction:
    """The origin of jobs that were enqueued with `connection=`."""

    def whereabouts(self) -> str:
        return (
            "it was enqueued inside a transaction, which has been rolled back or is not committed yet; "
            "look again after the commit"
        )


IN_A_TRANSACTION = _InATransaction()
