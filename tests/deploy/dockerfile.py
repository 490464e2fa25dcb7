"""Reads a Dockerfile: its stages and their instructions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

INSTRUCTIONS = frozenset({
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "SHELL",
    "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
})  # fmt: skip


class Wrong(Exception):
    """What a builder would refuse, or what should not be built."""


@dataclass
class Stage:
    """What one FROM begins."""

    image: str
    name: str | None
    steps: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def all(self, instruction: str) -> list[str]:
        """What these instructions say."""
        return [text for name, text in self.steps if name == instruction]

    def last(self, instruction: str) -> str:
        """What the last of them says, which counts."""
        return self.all(instruction)[-1]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile; raises Wrong."""
    found: list[Stage] = []
    for instruction, rest in _instructions(text):
        if instruction not in INSTRUCTIONS:
            raise Wrong(f"there is no instruction {instruction}")
        if instruction == "FROM":
            found.append(_stage(rest))
        elif not found:
            raise Wrong(f"{instruction} stands in front of FROM")
        else:
            _check_source(rest, [stage.name for stage in found[:-1]])
            found[-1].steps.append((instruction, rest))
    return found


def _instructions(text: str) -> list[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (name.upper(), rest.strip())
        for name, _, rest in (line.partition(" ") for line in joined.splitlines())
    ]


def _stage(rest: str) -> Stage:
    image, _, name = re.sub(r"\s+(?i:AS)\s+", " ", rest).partition(" ")
    if not re.fullmatch(r"[\w./-]+:\d[\w.-]*", image):
        raise Wrong(f"{image} names no version")
    return Stage(image, name or None)


def _check_source(rest: str, before: list[str | None]) -> None:
    source = re.match(r"--from=(\S+)", rest)
    if source is not None and source[1] not in before:
        raise Wrong(f"there is no stage {source[1]} before")


def words(text: str) -> list[str]:
    """A command in exec form; a shell in between would swallow signals."""
    try:
        found = json.loads(text)
    except ValueError:
        raise Wrong(f"{text} is run by a shell, which keeps signals to itself") from None
    if not isinstance(found, list):
        raise Wrong(f"{text} is no command")
    return [str(word) for word in found]
