"""The event streams of one server: how many there are, and the one reading behind them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from headgate.app.app import App
from headgate.web.events import Broadcaster
from headgate.web.problems import Refusal

LASTS = 3600.0
"""Seconds after which a stream ends, to be opened again."""


class Streams:
    """Counts streams, so that a server that is asked for too many says so instead of failing."""

    def __init__(self, app: App, most: int) -> None:
        self.broadcaster = Broadcaster(app)
        self.open = 0
        self._most = most

    def refuse_if_full(self) -> None:
        """Raise if there are as many as the server allows."""
        if self.open >= self._most:
            raise Refusal("too-many", f"{self._most:,} event streams are open, the most this server allows")

    async def counted(self, body: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """A stream that counts while it is open. It ends after a while: the caller's right to it is then looked at
        again."""
        self.open += 1
        ends = time.monotonic() + LASTS
        try:
            async for part in body:
                yield part
                if time.monotonic() > ends:
                    return
        finally:
            self.open -= 1
            await body.aclose()
