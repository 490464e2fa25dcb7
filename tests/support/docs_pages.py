"""The Markdown pages of this repository, and the blocks of code that stand in them.

A block that is only there to be read is preceded by a line that says so, and why:

    <!-- not run: needs a machine with systemd -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*) *$")
_NOT_RUN = re.compile(r"^ *<!-- not run: (?P<why>.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block. `follows` is whether nothing but empty lines stands between it and the block before."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None
    follows: bool

    @property
    def where(self) -> str:
        """Page and line, as an editor opens them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name in a first line such as `# jobs.py`: the block is that file."""
        first = self.text.partition("\n")[0]
        found = re.fullmatch(r"# (\w+\.py)", first)
        return found[1] if found else None


def name_of(page: Path) -> str:
    """A page as test ids show it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text("utf-8").splitlines()
    between: list[str] = ["the beginning"]
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            between.append(lines[number])
            number += 1
            continue
        end = next(n for n in range(number + 1, len(lines)) if lines[n].strip() == "```")
        indent = len(fence["indent"])
        text = "\n".join(line[indent:] for line in lines[number + 1 : end])
        said = [line for line in between if line.strip()]
        mark = _NOT_RUN.match(said[-1]) if said else None
        yield Block(page, number + 1, fence["language"], text, mark["why"] if mark else None, not said)
        between = []
        number = end + 1


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
