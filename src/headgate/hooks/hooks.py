"""Hooks: what one app has hung into its producers and workers. The worker calls them; it knows nothing of the app."""

from __future__ import annotations

from typing import Any

from headgate.hooks.lifespan import LifespanFunction
from headgate.hooks.listeners import Listeners
from headgate.hooks.middleware import Middleware


class Hooks:
    """Empty until the app hangs something in."""

    __slots__ = ("app", "lifespan", "listeners", "middleware")

    def __init__(self, app: Any = None, lifespan: LifespanFunction | None = None) -> None:
        self.app = app
        """What the lifespan function is called with."""
        self.lifespan = lifespan
        self.listeners = Listeners()
        self.middleware: list[Middleware] = []
