"""Connections of callers, of every kind: each yields one with an open transaction, its commit, its rollback."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

Open = Callable[[str], Any]


@asynccontextmanager
async def by_asyncpg(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    yield connection, transaction.commit, transaction.rollback
    await connection.close()


@asynccontextmanager
async def by_psycopg_async(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def by_psycopg(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    with psycopg.connect(dsn) as connection:
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def by_sqlalchemy(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_session(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_async_connection(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    await engine.dispose()


@asynccontextmanager
async def by_pool(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    async with asyncpg.create_pool(dsn, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection, transaction.commit, transaction.rollback


@asynccontextmanager
async def by_sqlalchemy_async(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        yield session, session.commit, session.rollback
    await engine.dispose()


WAYS: list[Open] = [
    by_asyncpg, by_pool, by_psycopg_async, by_psycopg, by_sqlalchemy, by_sqlalchemy_session,
    by_sqlalchemy_async_connection, by_sqlalchemy_async,
]  # fmt: skip


async def settled(action: Callable[[], Any]) -> None:
    done = action()
    if isinstance(done, Awaitable):
        await done
