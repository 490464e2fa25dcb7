"""Exit codes, and how an error becomes one: scripts may rely on them."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from headgate.errors import ConfigError, EngineError, HeadgateError, PayloadError

DONE = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 3
INTERRUPTED = 130

UsageError: Any = typer.BadParameter.__base__
"""Of click, or of the copy of it that newer versions of typer bring."""

EPILOG = """
[bold]Exit codes[/bold]
0  done
1  what was asked for failed: no such job, wrong state, problems found
2  the command is wrong: an unknown option, a bad value, no such task
3  the store is unavailable: not there, locked, read-only, too new
4  the lifespan of the app failed (worker)
130  Ctrl-C ended the waiting for a result
""".strip()


def exit_code(error: HeadgateError) -> int:
    """The exit code that says what kind of error it was."""
    match error:
        case ConfigError() | PayloadError():
            return USAGE
        case EngineError():
            return UNAVAILABLE
        case _:
            return FAILED


def fail(message: str, code: int = FAILED) -> NoReturn:
    """One clean line on standard error, and out."""
    from headgate.cli.show import errors, readable

    console = errors()
    console.print("headgate: ", style="bold red", end="")
    console.print(readable(message), markup=False, soft_wrap=True)
    raise typer.Exit(code)


class Program(TyperGroup):
    """The root of all commands: what Headgate raises on purpose ends in one line, never in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except HeadgateError as error:
            fail(str(error), exit_code(error))
        except UsageError as error:
            _point_to_app(error)
            raise


def _point_to_app(error: Any) -> None:
    """`headgate worker shop:app` is written so; what only looks at a store takes the app as an option."""
    app = re.search(r"unexpected extra argument(?:s|\(s\))? \((\w[\w.]*:\w+)", error.message)
    if app is not None:
        error.message += f"; to use the store of an app, write --app {app[1]}"
