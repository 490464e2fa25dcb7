"""Looking at workers: `workers`."""

from __future__ import annotations

from headgate.cli.options import AppName, Json, Url
from headgate.cli.store import open_store


def workers(json: Json = False, url: Url = None, app: AppName = None) -> None:
    """List the workers.

    headgate workers

    --json prints one worker a line: id, host, pid, queues (null: all), tasks,
    concurrency, running, registered_at, lease_until.
    """
    from headgate.cli.show import json_line, say, table
    from headgate.cli.times import ago

    with open_store(url, app) as opened:
        found = opened.workers_sync()
    if json:
        for worker in found:
            json_line(worker)
    elif not found:
        say("No workers.")
    else:
        rows = (
            (
                worker.id,
                f"{worker.host} {worker.pid}",
                "all" if worker.queues is None else ", ".join(worker.queues),
                len(worker.tasks),
                f"{worker.running:,} of {worker.concurrency:,}",
                ago(worker.registered_at),
                ago(worker.lease_until),
            )
            for worker in found
        )
        columns = ("worker", "process", "queues", "tasks", "running", "started", "lease ends")
        table(columns, rows, right=("tasks", "running"))
