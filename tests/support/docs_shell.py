"""The commands in shell blocks: `headgate …` parsed by the real command line, without being run; `make …` by name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from tests.support.docs_pages import ROOT, Block

ENDS = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<"})


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command in a block, without prompts, comments, redirections and variables set before it."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in ENDS:
                words.append(word)
                continue
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)
            if words:
                yield words
            words = []


@cache
def root() -> Any:
    """The command line as one command with its subcommands."""
    from headgate.cli.program import program

    return typer.main.get_command(program) if isinstance(program, typer.Typer) else program


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by its words."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from walk(inner, (*path, name))


def check_headgate(words: list[str]) -> None:
    """Refuse what the real command line would refuse: commands, options, missing or surplus arguments."""
    command, rest, path = root(), list(words), ["headgate"]
    while hasattr(command, "commands"):
        assert rest, f"`{shlex.join(['headgate', *words])}` names no command"
        if rest[0] in ("--help", "--version"):
            return
        assert rest[0] in command.commands, f"`{' '.join(path)}` has no command {rest[0]!r}"
        path.append(rest[0])
        command = command.commands[rest.pop(0)]
    if "--help" not in rest:
        command.make_context(" ".join(path), rest)


def make_targets() -> frozenset[str]:
    """What `make` can be asked for."""
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
