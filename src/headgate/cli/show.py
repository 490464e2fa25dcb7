"""Output: tables for people, JSON for programs, colours and bars on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 200
LEAST = 8
"""No column of a table is squeezed below this, as long as it has more to show."""
GAP = 3
STATE_STYLES = {
    "scheduled": "blue",
    "ready": "cyan",
    "waiting": "yellow",
    "running": "bold green",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "magenta",
}


def output() -> Console:
    """Standard output. A pipe gets no colours, and lines wide enough that nothing is cut."""
    return _console(sys.stdout.isatty(), stderr=False)


def errors() -> Console:
    """Standard error."""
    return _console(sys.stderr.isatty(), stderr=True)


def _console(terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    return Console(
        stderr=stderr,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        width=None if terminal else PIPED_WIDTH,
        force_terminal=None if terminal else False,
    )


def say(text: str) -> None:
    """A sentence for people."""
    output().print(readable(text), markup=False, soft_wrap=True)


def readable(text: str) -> str:
    """Text that cannot steer a terminal: keys and names may hold any character."""
    if text.replace("\n", " ").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def state_text(state: str) -> Any:
    """A state in its colour."""
    from rich.text import Text

    return Text(state, style=STATE_STYLES.get(state, ""))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Iterable[str] = (),
    whole: Iterable[str] = (),
) -> None:
    """Print a table. Cells are texts, numbers or rich texts; columns named in `right` hold numbers.

    What stands in a column named in `whole` is never broken nor cut, so that it can be copied.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    cells = [[c if isinstance(c, Text) else Text(readable(_cell(c))) for c in row] for row in rows]
    numbers, unbroken = frozenset(right), frozenset(whole)
    least = 0
    for place, name in enumerate(columns):
        widest = max([len(name), *(row[place].cell_len for row in cells)])
        fixed = name in unbroken
        justify = "right" if name in numbers else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=fixed)
        least += (widest if fixed else min(widest, LEAST)) + GAP
    for row in cells:
        made.add_row(*row)
    print_table(made, least)


def print_table(made: Table, least: int = 0) -> None:
    """A pipe gets no blanks at the ends of lines. A table that needs more runs over a terminal's edge."""
    console = output()
    console.width = max(console.width, least)
    if console.is_terminal:
        console.print(made)
        return
    with console.capture() as captured:
        console.print(made)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def json_line(value: Any) -> None:
    """One JSON document on a line of its own."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


class Bar(Protocol):
    """What long work reports to."""

    def advance(self, by: int = 1) -> None: ...


class _NoBar:
    def advance(self, by: int = 1) -> None:
        pass


@contextmanager
def progress(words: str, total: int | None) -> Generator[Bar]:
    """A progress bar on standard error, if that is a terminal."""
    console = errors()
    if not console.is_terminal:
        yield _NoBar()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield _Bar(bars, bars.add_task(words, total=total))


class _Bar:
    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, by: int = 1) -> None:
        self._bars.advance(self._task, by)
