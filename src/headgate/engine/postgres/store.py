"""A schema of a database, as one process uses it: its connections, its sleepers, and what looks after both."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headgate.engine.contract import Settings
from headgate.engine.postgres.overview import Overview
from headgate.engine.postgres.pools import Pools
from headgate.engine.postgres.scripts import quoted
from headgate.engine.postgres.statements import sql
from headgate.engine.postgres.vacuum import Vacuum
from headgate.engine.postgres.waking import Watchers
from headgate.engine.postgres.wire import Numbers
from headgate.errors import EngineUnavailable

log = logging.getLogger("headgate.postgres")


class Store:
    """Connections and threads do not survive a fork: a child makes its own, and so does opening a closed store."""

    def __init__(
        self, dsn: str, where: str, schema: str, options: dict[str, Any], settings: Settings
    ) -> None:
        self.process = os.getpid()
        self.schema = schema
        self.name = quoted(schema)
        self.pools = Pools(dsn, where, options, settings)
        self.watchers = Watchers(self.pools, schema)
        self.vacuum = Vacuum(self.pools, schema)
        self._looking: asyncio.Task[None] | None = None
        self._look_once_more = False
        self._going_on: set[asyncio.Task[None]] = set()

    async def call(self, function: str, *values: Any) -> Any:
        """One row of one function."""
        async with self.pools.connection() as connection:
            return await connection.fetchrow(self._statement(function, values), *values)

    async def exchange(self, *values: Any) -> list[Any]:
        """All rows of an exchange."""
        async with self.pools.connection(exchange=True) as connection:
            return await connection.fetch(sql("exchange", self.schema), *values)

    def _statement(self, function: str, values: Sequence[Any]) -> str:
        places = ", ".join(
            f"${number}{'::text::bigint[]' if isinstance(value, Numbers) else ''}"
            for number, value in enumerate(values, 1)
        )
        return f"SELECT * FROM {self.name}.{function}({places})"

    @asynccontextmanager
    async def reader(self) -> AsyncGenerator[Overview]:
        """What only looks."""
        async with self.pools.connection() as connection:
            yield Overview(connection, self.schema)

    def signal(self, *, work: bool = False, ended: bool = False, again: bool = False) -> None:
        """Wake this process's sleepers, and look after others that were busy when the step looked."""
        if work or ended:
            self.watchers.signal(work=work, ended=ended)
        if again:
            self._look_once_more = True
            if self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._look_again())

    async def _look_again(self) -> None:
        """After a commit: a process that was busy then may have gone to sleep since, without having seen the commit."""
        try:
            while self._look_once_more:
                self._look_once_more = False
                await self.call("wake", True, False, self.watchers.id)
        except EngineUnavailable as error:
            log.debug("others were not called: %s", error)  # they come back from the trouble by themselves

    def go_on(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work that a caller need not wait for, and that sweeps do where it is cut off."""
        task = asyncio.get_running_loop().create_task(self._until_it_fails(work))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)

    async def _until_it_fails(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except EngineUnavailable as error:
            log.debug("left to sweeps: %s", error)

    async def close(self) -> None:
        """No sleeper is woken here any more, and no connection stays."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
        for task in self._going_on:
            task.cancel()
        self.vacuum.stop()
        await asyncio.to_thread(self.watchers.stop)
        await self.pools.close()
