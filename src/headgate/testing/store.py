"""An app on another store for a while."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.app.app import App


@contextmanager
def use_store(app: App, url: str = "memory://", *, clock: Callable[[], int] | None = None) -> Generator[App]:
    """Let an app, with all tasks and limits declared on it, use another store; afterwards it is as it was.

    Inside the block the app may be closed and opened again, as the lifespan of a web application does: the jobs stay.
    """
    app.close_sync()
    restore = app.redirect(url, clock, keep=True)
    try:
        yield app
    finally:
        app.close_sync()
        restore()
