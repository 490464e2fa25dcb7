"""`python manage.py headgate …`: the command line, told where the project's app is."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

TARGET = "headgate.django:app"


class Command(BaseCommand):
    """Hands its words over: what they mean is the command line's business."""

    help = "Run workers, look at jobs, steer them: `manage.py headgate --help` lists the commands."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Called by manage.py, which has heeded `--settings` and `--pythonpath` already."""
        ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        ours.add_argument("--settings")
        ours.add_argument("--pythonpath")
        _, words = ours.parse_known_args(argv[2:])
        _program()(completed(words), prog_name=f"{os.path.basename(argv[0])} {argv[1]}")

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """Called by `manage.py help headgate`."""
        _program()(["--help"], prog_name=f"{prog_name} {subcommand}", standalone_mode=False)

    def add_arguments(self, parser: Any) -> None:
        """Called by `call_command("headgate", "audit")`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, **options: Any) -> None:
        """Called by `call_command`; what goes wrong is raised."""
        code = _program()(completed(options["words"]), prog_name="headgate", standalone_mode=False)
        if code:
            raise CommandError(f"headgate {' '.join(options['words'])}: it ended with code {code}")


def _program() -> Any:
    from headgate.cli.entry import MISSING, installed

    if not installed():
        raise CommandError(MISSING)
    from headgate.cli.program import program

    return program


def completed(words: Sequence[str]) -> list[str]:
    """The words of a command, with where the project's app is, and where its modules are: beside manage.py."""
    import typer

    command: Any = typer.main.get_command(_program())
    path: list[str] = []
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest[0]]
        path.append(rest.pop(0))
    if not path or hasattr(command, "commands"):
        return list(words)
    names = {one.name: one for one in command.params}
    told = [f"--app-dir={sys.path[0] or '.'}"] if "app_dir" in names else []
    if "target" in names:
        told.append(TARGET)
    elif "app" in names and not any(word.split("=")[0] in ("--app", "--url") for word in rest):
        told.append(f"--app={TARGET}")
    return [*path, *told, *rest]
