"""What Headgate says about an app goes to standard error as one line, as errors do."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app.app import App


class Notes(logging.Handler):
    """Prints what `headgate.app` logs; for commands that configure no logging of their own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        from headgate.cli.show import errors, readable

        console = errors()
        console.print("headgate: ", style="bold yellow", end="")
        console.print(readable(record.getMessage()), markup=False, soft_wrap=True)


def show_notes() -> None:
    """Print what would otherwise be lost. A log that the program has set up itself is left to it."""
    log = logging.getLogger("headgate.app")
    if not log.handlers:
        log.addHandler(Notes(logging.WARNING))
        log.propagate = False


def point_out(app: App, filter: Mapping[str, Any]) -> None:
    """A filter matched nothing: say so where nothing knows one of its names."""
    asked = {name: filter[name] for name in ("queue", "task", "limit") if name in filter}
    for sentence in app.unknown_sync(**asked) if asked else ():
        logging.getLogger("headgate.app").warning("%s", sentence)
