"""`top`: its options, and which of its two ways to show fits where it prints."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import existing_app


def top(
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="Read the store so often.")
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    json: Json = False,
    url: Url = None,
    app: AppName = None,
    factory: Factory = False,
) -> None:
    """Watch a store in the terminal.

    headgate top
    headgate top --url postgresql://localhost/jobs --every 5s

    Keys: 1 overview, 2 queues, 3 limits, 4 workers, tab the next of them, arrows
    scroll, space holds the picture, q ends. Where the output is no terminal, it
    is shown once. --json prints one object: now, totals, queues, limits (the
    tightest keys), workers, history (of an hour), failed (the newest).
    """
    import asyncio

    from headgate.cli.show import json_line, output
    from headgate.cli.times import duration
    from headgate.cli.top import live, screens
    from headgate.cli.top.reading import read
    from headgate.engine.open import shown_url
    from headgate.errors import ConfigError

    seconds = duration(every, "--every")
    if seconds <= 0:
        raise ConfigError(f"--every {every!r}: longer than nothing")
    opened = existing_app(url, app, factory=factory)
    store, console = shown_url(opened.url), output()
    if json or once or not console.is_terminal:
        with opened:
            found = opened.sync_loop.run(read(opened))
        if json:
            json_line(found.to_dict())
        else:
            console.print(screens.whole(found, store, console.width))
        return
    asyncio.run(live.watch(opened, seconds, store, console))
