"""The dashboard and the HTTP API: `web`."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.options import AppDir, Factory, Url

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]", help="The app, whose tasks can then be enqueued; without it, the store alone."
    ),
]


def web(
    target: Target = None,
    url: Url = None,
    factory: Factory = False,
    app_dir: AppDir = ".",
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The port to listen on.")] = 8390,
    root_path: Annotated[
        str,
        typer.Option("--root-path", metavar="PATH", help="Where a proxy in front has put it, as in /queue."),
    ] = "",
    trust_proxy: Annotated[
        bool, typer.Option("--trust-proxy", help="Believe what a proxy on this machine says of the caller.")
    ] = False,
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens", metavar="FILE", help="NAME:ROLE:SECRET, one a line; else HEADGATE_WEB_TOKENS."
        ),
    ] = None,
    new_token: Annotated[
        str | None,
        typer.Option(
            "--new-token", metavar="NAME:ROLE", help="Print a new secret and its line for the file; end."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Look, and change nothing.")] = False,
    hide_payloads: Annotated[
        bool, typer.Option("--hide-payloads", help="Hide arguments and results from the role read.")
    ] = False,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
    ] = "info",
) -> None:
    """Serve the dashboard and the HTTP API until SIGTERM or Ctrl-C.

    headgate web jobs:app
    headgate web --url postgresql://localhost/jobs --read-only
    headgate web --new-token ada:operate >> tokens
    headgate web jobs:app --host 0.0.0.0 --tokens tokens

    Without tokens it answers this machine only. Roles: read looks, operate also
    enqueues and steers, work enqueues and works, admin may do everything. A
    token that is printed by --new-token is not stored: its secret goes to
    standard error once, the line for the file to standard output.
    """
    if new_token is not None:
        _print_token(new_token)
        return
    import os

    from headgate import web as room
    from headgate.cli.show import say
    from headgate.cli.store import existing_app
    from headgate.web.serve import check_host, serve
    from headgate.web.tokens import VARIABLE
    from headgate.worker.process.logs import configure_logs

    known = room.tokens_from(os.environ.get(VARIABLE), tokens)
    check_host(host, protected=known is not None)
    app = existing_app(url, target, app_dir, factory=factory)
    configure_logs(log_level, json=False)
    application = room.asgi(app, auth=known, read_only=read_only, hide_payloads=hide_payloads)
    shown = f"[{host}]" if ":" in host else host
    say(f"Headgate at http://{shown}:{port}{root_path.rstrip('/')}/ (Ctrl-C ends it)")
    serve(application, host, port, root_path, trust_proxy=trust_proxy)


def _print_token(who: str) -> None:
    from headgate.web import new_token

    secret, line = new_token(who)
    typer.echo(f"The secret, shown once: {secret}", err=True)
    typer.echo(line)
