"""`with app.on_commit()`: jobs enqueued inside are kept back, and stored when the block has ended well.

For stores that cannot take part in the caller's transaction. Between the commit and the storing stands this process
alone: if it dies there, the jobs are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.app.blocks import Block, block_around, handles
from headgate.app.client import Client
from headgate.app.handle import JobHandle
from headgate.app.sync import SyncLoop, twin
from headgate.callers import by_the_caller
from headgate.errors import ConfigError, EngineUnavailable, HeadgateError, JobExists
from headgate.job import NewJob

JOBS_PER_STEP = 1000

Register = Callable[[Callable[[], Any]], Any]
"""Takes a function, and calls it after the commit: `connection.on_commit` of Django."""


class Kept:
    """Jobs that one call enqueued, and the handles that its caller has."""

    def __init__(self, client: Client, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.handles = [JobHandle[Any](client, job.id, origin=self) for job in jobs]
        self.fate = "it is kept back by app.on_commit() until the commit; ask after that"

    def whereabouts(self) -> str:
        """Why the store does not know of these jobs."""
        return self.fate

    def stored_as(self, handles: Sequence[JobHandle[Any]]) -> None:
        """What the store made of them: a unique key may lead to a job that was there before."""
        for mine, stored in zip(self.handles, handles, strict=True):
            mine.become(stored)


class OnCommit(Block):
    """What `App.on_commit()` returns; for `with` and `async with`. `jobs` are those that are not stored yet."""

    def __init__(self, client: Client, register: Register | None = None) -> None:
        super().__init__(client)
        if register is not None and not callable(register):
            raise ConfigError(
                f"on_commit({register!r}): a function is needed that takes a function and calls it after the commit, "
                "such as connection.on_commit of Django; without one the end of the block is the commit"
            )
        self._register = register
        self._kept: list[Kept] = []
        self._in_doubt = False

    @property
    def sync_loop(self) -> SyncLoop:
        """Where `store_sync` runs."""
        return self._client.sync_loop

    @property
    def jobs(self) -> list[NewJob]:
        """What was enqueued inside and is not stored yet."""
        return [job for kept in self._kept for job in kept.jobs]

    async def begin(self, *, waits: bool) -> None:
        pass

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[JobHandle[Any]]:
        kept = Kept(self._client, jobs)
        await self.take(kept)
        return kept.handles

    async def take(self, kept: Kept) -> None:
        """Keep jobs back until the commit. The hook that knows of it may belong to the caller's thread."""
        self._kept.append(kept)
        register = self._register
        if register is not None:
            await by_the_caller(lambda: register(lambda: self.sync_loop.run(self._store([kept], None))))

    async def end(self, error: BaseException | None) -> None:
        if self._register is not None:
            return
        if error is not None:
            self._drop()
            return
        around = block_around(self._client)
        if isinstance(around, OnCommit):  # the commit that counts is that of the outermost block
            for kept in self._kept:
                await around.take(kept)
            self._kept = []
        else:
            await self._store(list(self._kept), around)

    def _drop(self) -> None:
        for kept in self._kept:
            kept.fate = "it was never stored: the app.on_commit() block that it was enqueued in ended with an exception"
        self._kept.clear()

    async def store(self) -> None:
        """Store what could not be stored at the end of the block. Nothing is stored twice: the jobs have their ids."""
        await self._store(list(self._kept), None)

    store_sync = twin(store)

    async def _store(self, parts: list[Kept], around: Block | None) -> None:
        errors: list[HeadgateError] = []
        while parts:
            step = _step(parts)
            parts = parts[len(step) :]
            errors += await self._store_step(step, around)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("jobs were refused after the commit; the others are stored", errors)

    async def _store_step(self, step: list[Kept], around: Block | None) -> list[HeadgateError]:
        """Together if the store takes them so; else each call's jobs alone, so that one refusal is that one's only."""
        try:
            await self._send(step, around)
        except EngineUnavailable as error:
            self._in_doubt = True
            error.add_note(self._what_is_left())
            raise
        except HeadgateError as error:
            if len(step) == 1:
                return self._refused(step[0], error)
            return [one for kept in step for one in await self._store_step([kept], around)]
        return []

    async def _send(self, step: list[Kept], around: Block | None) -> None:
        jobs = [job for kept in step for job in kept.jobs]
        if around is None:
            stored = handles(self._client, await self._client.enqueue(jobs), None)
        else:
            stored = await around.enqueue(jobs)
        for kept in step:
            kept.stored_as(stored[: len(kept.jobs)])
            stored = stored[len(kept.jobs) :]
            self._kept.remove(kept)

    def _refused(self, kept: Kept, error: HeadgateError) -> list[HeadgateError]:
        self._kept.remove(kept)
        if self._in_doubt and isinstance(error, JobExists) and error.job_id in {job.id for job in kept.jobs}:
            kept.stored_as([JobHandle(self._client, job.id, created=True) for job in kept.jobs])
            return []  # an earlier call had stored it, and its answer was lost
        kept.fate = f"it was refused when it was to be stored: {error}"
        return [error]

    def _what_is_left(self) -> str:
        return (
            f"{len(self.jobs)} jobs kept back by app.on_commit() are not stored, as far as is known; what the block "
            "stands around is done. Call store() of the block again"
        )


def _step(parts: list[Kept]) -> list[Kept]:
    """The first of them, as many as fit into one step."""
    step, size = [parts[0]], len(parts[0].jobs)
    for kept in parts[1:]:
        size += len(kept.jobs)
        if size > JOBS_PER_STEP:
            break
        step.append(kept)
    return step
