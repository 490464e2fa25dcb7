"""The table for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.checks import Verdict
from bench.results import Result
from bench.rows import Row

WIDTH_IN_A_PIPE = 150
MARKS = {True: Text("yes", style="green"), False: Text("NO", style="bold red"), None: Text("–", style="dim")}


def show(
    results: Sequence[tuple[Row, Sequence[Result]]], quick: bool, console: Console | None = None
) -> None:
    """Print a line for each row; peers that do not decide are in parentheses."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_A_PIPE
    table = Table("work", "peers", "Headgate", "target", "reached", show_lines=True)
    for row, measured in results:
        *peers, ours = measured
        table.add_row(row.title, _peers(row, peers), _ours(row, ours), _target(row), MARKS[ours.reached])
    console.print(table)
    if quick:
        console.print("Small numbers, one round: this shows that it works, not how fast it is.")


def _figures(row: Row, result: Result) -> str:
    return f"failed: {result.error}" if result.error is not None else row.show(result.figures)


def _peers(row: Row, peers: Sequence[Result]) -> str:
    return "\n".join(_peer(row, peer) for peer in peers) or "–"


def _peer(row: Row, peer: Result) -> str:
    words = f"{peer.system} {_figures(row, peer)}"
    return words if peer.decides else f"({words})"


def _ours(row: Row, ours: Result) -> str:
    return "\n".join(
        [_figures(row, ours), *(_beside(verdict) for verdict in ours.verdicts if verdict.against)]
    )


def _beside(verdict: Verdict) -> str:
    return f"{verdict.value:.2f}× {verdict.against}"


def _target(row: Row) -> str:
    return "\n".join(str(check) for check in row.checks)
