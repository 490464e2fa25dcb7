"""All commands of `headgate`, in the order in which its help lists them.

Commands import what they need when they run: `headgate --help` loads no engine.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli import (
    enqueue,
    failures,
    imports,
    jobs,
    limits,
    maintenance,
    overrides,
    queues,
    shares,
    sql,
    steering,
    web,
    worker,
    workers,
)
from headgate.cli.demo import command as demo
from headgate.cli.exits import EPILOG, Program
from headgate.cli.top import command as top

program = typer.Typer(
    name="headgate",
    cls=Program,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from headgate import __version__

        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@program.callback()
def headgate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A background job queue whose core is admission: which job may start now.

    headgate demo                                        see it at work
    headgate worker myproject.jobs:app                   run jobs
    headgate enqueue myproject.jobs:app send to=ada      enqueue one
    headgate jobs --state waiting                        see what waits
    headgate explain 019a8b2c7d                          and why

    Commands that look and steer need the store's address only: --url,
    HEADGATE_URL, or sqlite:///headgate.db. With --json they print for programs:
    one object, or one object a line where they list.
    """


RUN, LOOK, STEER, KEEP = "Run", "Look", "Steer", "Keep"

for panel, commands in (
    (RUN, {"worker": worker.worker, "enqueue": enqueue.enqueue, "import": imports.import_jobs}),
    (RUN, {"web": web.web}),
    (LOOK, {"jobs": jobs.jobs, "job": jobs.job, "explain": jobs.explain, "failures": failures.failures}),
    (LOOK, {"queues": queues.queues, "limits": limits.limits, "workers": workers.workers}),
    (LOOK, {"top": top.top, "sql": sql.sql}),
    (STEER, {"cancel": steering.cancel, "restart": steering.restart}),
    (STEER, {"expedite": steering.expedite, "delete": steering.delete}),
    (STEER, {"pause": queues.pause, "resume": queues.resume}),
):
    for name, function in commands.items():
        program.command(name, rich_help_panel=panel)(function)

program.add_typer(overrides.limit, rich_help_panel=STEER)
program.add_typer(shares.share, rich_help_panel=STEER)
program.command("audit", rich_help_panel=KEEP)(maintenance.audit)
program.command("migrate", rich_help_panel=KEEP)(maintenance.migrate)
program.command(
    "bench",
    rich_help_panel=KEEP,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(maintenance.bench)
program.command("demo", rich_help_panel=KEEP)(demo.demo)
