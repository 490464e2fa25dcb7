"""Watching: the store is read in one task while keys change what is shown of it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from headgate.cli.top import screens
from headgate.cli.top.keyboard import keyboard
from headgate.cli.top.reading import Reading, read
from headgate.errors import HeadgateError

if TYPE_CHECKING:
    from rich.console import Console, Group

    from headgate.app.app import App


async def watch(app: App, every: float, store: str, console: Console) -> None:
    """Until a key, a signal or the end of the terminal ends it."""
    from rich.live import Live

    shown = Shown(store)
    async with app:
        first = await read(app)  # what cannot be read at all ends here, as of any other command
        shown.tell(first)
        picture = Live(console=console, screen=True, auto_refresh=False)
        with _signals(shown), keyboard(shown.press), picture:
            reading = asyncio.create_task(_read_on(app, every, shown))
            try:
                while not shown.ended:
                    picture.update(shown.picture(console), refresh=True)
                    await shown.change()
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading


async def _read_on(app: App, every: float, shown: Shown) -> None:
    """A store that is away for a while is said and tried again; what was seen last stays."""
    while True:
        await asyncio.sleep(every)
        if shown.held:
            continue
        try:
            shown.tell(await read(app))
        except HeadgateError as error:
            shown.miss(str(error))


class Shown:
    """What is shown, and which part of it."""

    def __init__(self, store: str) -> None:
        self.ended = False
        self.held = False
        self._store = store
        self._view = 0
        self._first = 0
        self._reading: Reading | None = None
        self._problem = ""
        self._changed = asyncio.Event()

    def tell(self, reading: Reading) -> None:
        """The store was read."""
        self._reading, self._problem = reading, ""
        self._changed.set()

    def miss(self, problem: str) -> None:
        """It could not be read."""
        self._problem = problem
        self._changed.set()

    def press(self, key: str) -> None:
        """A key; one that means nothing changes nothing."""
        views = len(screens.VIEWS)
        if key.isdigit() and 1 <= int(key) <= views:
            self._view, self._first = int(key) - 1, 0
        elif key in ("next", "previous"):
            self._view, self._first = (self._view + (1 if key == "next" else -1)) % views, 0
        elif key in ("up", "down"):
            self._first = max(0, self._first + (1 if key == "down" else -1))
        elif key == "hold":
            self.held = not self.held
        elif key == "end":
            self.ended = True
        self._changed.set()

    def end(self) -> None:
        """A signal."""
        self.press("end")

    async def change(self) -> None:
        """Until there is something else to show, also another size of the terminal."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await self._changed.wait()
        self._changed.clear()

    def picture(self, console: Console) -> Group:
        """What to draw."""
        assert self._reading is not None
        state = "held" if self.held else ""
        return screens.screen(
            self._reading, self._view, self._first, self._store, self._problem or state, console.size
        )


class _signals:
    """SIGTERM, SIGHUP and Ctrl-C end it like a key, so that the terminal is given back as it was."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def __enter__(self) -> None:
        with suppress(NotImplementedError):  # Windows: Ctrl-C is a KeyboardInterrupt
            for name in self._names:
                asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self._shown.end)

    def __exit__(self, *_: object) -> None:
        with suppress(NotImplementedError):
            for name in self._names:
                asyncio.get_running_loop().remove_signal_handler(getattr(signal, name))
