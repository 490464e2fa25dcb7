"""Stores that apps and worker processes are tested on, by URL: whatever several processes can share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.redis_leaks import check_and_clear
from tests.redis_servers import binary, fresh_prefix, shared

STORES = ["sqlite", *(kind for kind in ("valkey", "redis7") if binary(kind))]


@contextmanager
def fresh_url(store: str, directory: Path) -> Generator[str]:
    """The URL of an empty store; what Redis keeps at the end must be in its catalogue."""
    if store == "sqlite":
        yield f"sqlite:///{directory}/jobs.db"
        return
    process, prefix = shared(store), fresh_prefix()
    yield f"{process.url}?prefix={prefix}"
    check_and_clear(process, prefix)
