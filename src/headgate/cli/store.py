"""From `--url`, `--app` and HEADGATE_URL to an open store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headgate.cli.notes import show_notes
from headgate.errors import ConfigError, EngineUnavailable

if TYPE_CHECKING:
    from headgate.app.app import App


@contextmanager
def open_store(
    url: str | None, target: str | None = None, app_dir: str = ".", *, factory: bool = False
) -> Generator[App]:
    """A store that exists: commands that look and steer never create one."""
    with existing_app(url, target, app_dir, factory=factory) as app:
        yield app


def existing_app(url: str | None, target: str | None, app_dir: str = ".", *, factory: bool = False) -> App:
    """An app that is not open yet, and whose store exists."""
    app = find_app(url, target, app_dir, factory=factory)
    _must_exist(app)
    return app


def find_app(url: str | None, target: str | None, app_dir: str = ".", *, factory: bool = False) -> App:
    """The app that was named, or a bare one that is good for everything but its tasks."""
    show_notes()
    if target is None:
        if factory:
            raise ConfigError("--factory belongs to --app MODULE:APP, which is missing")
        from headgate.app.app import App

        return App(url)
    from headgate.worker.process.load_app import load_app

    app: App = load_app(target, factory=factory, app_dir=app_dir)
    if url is not None:
        app.redirect(url)
    return app


def _must_exist(app: App) -> None:
    parts = urlsplit(app.url)
    if parts.scheme == "memory":
        raise ConfigError(f"{app.url} lives inside one process; there is nothing to see of it from another")
    if parts.scheme == "sqlite":
        from headgate.engine.open import sqlite_path

        path = os.path.abspath(sqlite_path(parts, app.url))
        if not os.path.isfile(path) or os.path.getsize(path) == 0:
            raise _missing(path)
    if asyncio.run(_version(app)) == 0:
        from headgate.engine.open import shown_url

        raise _missing(shown_url(app.url))


async def _version(app: App) -> int | None:
    """The version of the store, asked without founding one; None where an engine cannot tell."""
    from headgate.engine.contract import Versioned

    engine = app.make_engine()
    try:
        return await engine.version() if isinstance(engine, Versioned) else None
    finally:
        await engine.close()


def _missing(where: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"no Headgate store at {where}; name another with --url or HEADGATE_URL, "
        "or create this one with `headgate migrate`"
    )
