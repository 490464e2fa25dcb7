"""The event loop that every system runs on: uvloop where it is installed. Standard library only."""

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None means asyncio's own."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return uvloop.new_event_loop
