"""A context for `async with` that says so when it is used with a plain `with`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, NoReturn, TypeVar

from headgate.errors import HeadgateError

T = TypeVar("T")


class AsyncOnly(Generic[T]):
    """What `async with` enters; `remedy` is what to write where a plain `with` was tried."""

    def __init__(self, context: AbstractAsyncContextManager[T], remedy: str) -> None:
        self._context = context
        self._remedy = remedy

    async def __aenter__(self) -> T:
        return await self._context.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._context.__aexit__(kind, error, trace)

    def __enter__(self) -> NoReturn:
        raise HeadgateError(self._remedy)

    def __exit__(self, *error: object) -> None: ...
