"""`with app.transaction(connection)`: every enqueue inside joins a transaction of the caller's.

The transaction stays the caller's: the block neither begins nor ends it, so it may stand inside it or around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from headgate.app.blocks import Block, handles
from headgate.app.client import Client
from headgate.app.handle import JobHandle
from headgate.app.on_commit import OnCommit
from headgate.engine.contract import EnqueuesWithin
from headgate.errors import ConfigError
from headgate.job import NewJob


class Transaction(Block):
    """What `App.transaction()` returns, for `with` and `async with`. Without a connection: joins none."""

    def __init__(self, client: Client, connection: Any) -> None:
        super().__init__(client)
        self._connection = of_this_thread(connection)
        self._turn = asyncio.Lock()
        self._checked = False
        self._instead: OnCommit | None = None

    async def begin(self, *, waits: bool) -> None:
        if self._connection is None:
            return
        engine = await self._client.engine()
        if isinstance(engine, EnqueuesWithin):
            if engine.is_awaited(self._connection) and waits:
                raise ConfigError(
                    f"{_kind(self._connection)} is a connection to await: write `async with app.transaction(…)`"
                )
        elif self._client.on_trial:
            self._instead = OnCommit(self._client)
        else:
            raise ConfigError(
                f"{self._client.shown_url} cannot take part in a transaction of another database; write "
                "`with app.on_commit():` around the transaction, which enqueues when the block has ended well"
            )

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[JobHandle[Any]]:
        if self._instead is not None:
            return await self._instead.enqueue(jobs)
        if self._connection is None:
            return handles(self._client, await self._client.enqueue(jobs), None)
        engine = await self._client.engine()
        assert isinstance(engine, EnqueuesWithin)
        self._client.refuse_another_loop(engine, self._connection)
        if not engine.is_awaited(self._connection):
            return await self._join(engine, jobs)
        async with self._turn:  # a connection runs one statement at a time, whatever tasks the body starts
            return await self._join(engine, jobs)

    async def _join(self, engine: EnqueuesWithin, jobs: Sequence[NewJob]) -> list[JobHandle[Any]]:
        if not self._checked:
            await engine.check_transaction(self._connection)
            self._checked = True
        return handles(self._client, await self._client.enqueue(jobs, self._connection), self)

    async def end(self, error: BaseException | None) -> None:
        if self._instead is not None:
            await self._instead.end(error)

    def whereabouts(self) -> str:
        """Why the store may not know of a job that was enqueued inside."""
        if self._state == "open":
            return (
                "it was enqueued inside app.transaction(), which is still open: no other connection sees it before "
                "the commit; ask once the transaction is committed"
            )
        return (
            "it was enqueued inside app.transaction(); that transaction or savepoint has been rolled back, or is not "
            "committed yet"
        )


def _kind(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def of_this_thread(connection: Any) -> Any:
    """What stands for another connection in each thread or task: the caller's, since sync twins work in their own."""
    match _kind(connection):
        case "django.utils.connection.ConnectionProxy":
            return import_module("django.db").connections[connection.alias]
        case "sqlalchemy.orm.scoping.scoped_session" | "sqlalchemy.ext.asyncio.scoping.async_scoped_session":
            return connection.registry()
        case _:
            return connection
