"""Which tests need a server: everything that is run on one, whatever fixture or parameter brings it in."""

from __future__ import annotations

from pathlib import Path

import pytest

SERVER_KINDS = ("valkey", "redis", "postgres")
SERVER_FOLDERS = {"redis", "postgres"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, so that the fast part can leave them out."""
    for item in items:
        if _needs_server(item):
            item.add_marker(pytest.mark.server)


def _needs_server(item: pytest.Item) -> bool:
    params = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    on_server = any(isinstance(value, str) and value.startswith(SERVER_KINDS) for value in params)
    return on_server or Path(item.path).parent.name in SERVER_FOLDERS
