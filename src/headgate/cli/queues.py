"""Queues: `queues`, `pause`, `resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.options import AppName, Factory, Json, Url
from headgate.cli.store import open_store

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]


def queues(json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False) -> None:
    """List the queues that have unfinished jobs or are paused.

    headgate queues

    --json prints one queue a line: name, paused, scheduled, ready, waiting,
    running, oldest (the time since when a job is ready).
    """
    from rich.text import Text

    from headgate.cli.show import json_line, say, table

    with open_store(url, app, factory=factory) as opened:
        found = opened.queues_sync()
    if json:
        for queue in found:
            json_line(queue)
    elif not found:
        say("No queue has unfinished jobs, and none is paused.")
    else:
        numbers = ("scheduled", "ready", "waiting", "running")
        paused = Text("paused", style="bold yellow")
        rows = (
            (q.name, paused if q.paused else "", q.scheduled, q.ready, q.waiting, q.running) for q in found
        )
        table(("queue", "", *numbers), rows, right=numbers)


def pause(
    queue: QueueName, json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False
) -> None:
    """Start nothing more from a queue; what runs goes on.

    headgate pause email

    --json prints one object: queue, paused, changed. Pausing a paused queue
    changes nothing and is no error.
    """
    with open_store(url, app, factory=factory) as opened:
        changed = opened.pause_sync(queue)
    _say_queue(queue, True, changed, json)


def resume(
    queue: QueueName, json: Json = False, url: Url = None, app: AppName = None, factory: Factory = False
) -> None:
    """Start jobs from a paused queue again.

    headgate resume email

    --json prints one object: queue, paused, changed. Resuming a queue that is
    not paused is no error.
    """
    with open_store(url, app, factory=factory) as opened:
        changed = opened.resume_sync(queue)
    _say_queue(queue, False, changed, json)


def _say_queue(queue: str, paused: bool, changed: bool, json: bool) -> None:
    from headgate.cli.show import json_line, say

    if json:
        json_line({"queue": queue, "paused": paused, "changed": changed})
        return
    words = "paused" if paused else "running"
    say(f"Queue {queue!r} is {words}{' now' if changed else ' already'}.")
