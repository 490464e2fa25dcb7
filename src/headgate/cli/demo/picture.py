"""A scene as a picture for a terminal."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from headgate.cli.demo.scene import Cell, Event, Scene, ShownWorker, Tone
from headgate.cli.demo.workload import API_SLOTS, CUSTOMERS, MAIL_PERIOD, MAILS, TOTAL

CELLS: dict[Cell, tuple[str, str]] = {
    "todo": ("·", "grey42"),
    "running": ("▶", "bold yellow"),
    "retry": ("↻", "bold magenta"),
    "dead": ("✖", "bold red"),
    "done": ("■", "green"),
}
LEGEND: dict[Cell, str] = {
    "done": "done",
    "running": "runs",
    "retry": "retry",
    "dead": "cut off",
    "todo": "to do",
}
TONES: dict[Tone, str] = {"plain": "", "good": "green", "bad": "bold red", "note": "yellow"}
MOST_EVENTS = 9
OTHER_LINES = 21
COLUMNS = 2


def picture(scene: Scene, height: int = 24) -> RenderableType:
    """The whole view, 80 columns wide; events get the lines that a terminal of that height leaves them."""
    title = (
        f"[bold]Headgate[/bold] · {TOTAL} jobs · {CUSTOMERS} customers · 2 worker processes · one SQLite file"
    )
    return Panel(
        Group(
            _progress(scene),
            _customers(scene),
            _gauges(scene),
            _events(scene, max(3, min(MOST_EVENTS, height - OTHER_LINES))),
        ),
        title=title,
        subtitle=f"{scene.seconds:.1f} s",
        border_style="cyan",
        width=80,
    )


def _progress(scene: Scene) -> RenderableType:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right")
    bar = ProgressBar(total=TOTAL, completed=scene.done, complete_style="green", finished_style="bold green")
    grid.add_row(bar, Text(f"{scene.done:3} of {TOTAL} done", style="bold"))
    return Group(grid, _counts(scene))


def _counts(scene: Scene) -> Text:
    styles = {"waiting": "yellow", "ready": "cyan", "running": "bold green", "scheduled": "blue"}
    words = {"scheduled": "due later"}
    text = Text()
    for name, style in styles.items():
        text.append(f"{scene.counts.get(name, 0):4} ", style=style)
        text.append(f"{words.get(name, name)}  ")
    text.append(f"{scene.retried:4} ", style="magenta")
    return text.append("failed once")


def _customers(scene: Scene) -> RenderableType:
    customers = [_customer_row(number, cells) for number, cells in enumerate(scene.customers, 1)]
    rows = CUSTOMERS // COLUMNS
    halves = [Group(*customers[start : start + rows]) for start in range(0, CUSTOMERS, rows)]
    legend = Text(justify="center")
    for cell, words in LEGEND.items():
        mark, style = CELLS[cell]
        legend.append(f" {mark} ", style=style).append(f"{words} ", style="dim")
    body = Columns(halves, expand=True, equal=True)
    return Panel(Group(body, legend), title="one at a time per customer", border_style="dim", padding=(0, 1))


def _customer_row(number: int, cells: tuple[Cell, ...]) -> Text:
    text = Text(f"customer {number:2} ", style="dim", no_wrap=True)
    for cell in cells:
        mark, style = CELLS[cell]
        text.append(mark, style=f"not dim {style}")
    text.append(f" {cells.count('done'):2}", style="not dim")
    return text


def _gauges(scene: Scene) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    period = "second" if MAIL_PERIOD == 1 else f"{MAIL_PERIOD:g} s"
    grid.add_row(
        "API slots",
        _boxes(scene.api_held, API_SLOTS, "green"),
        f"{scene.api_held:2} of {API_SLOTS} held",
        Text(f"{scene.api_waiting:3} wait", style="yellow"),
        _worker(scene.workers[0]),
    )
    grid.add_row(
        "mail rate",
        _boxes(scene.mails, MAILS, "blue"),
        f"{min(scene.mails, MAILS):2} of {MAILS} a {period}",
        Text(f"{scene.mails_waiting:3} wait", style="yellow"),
        _worker(scene.workers[1]),
    )
    return grid


def _boxes(used: int, of: int, style: str) -> Text:
    used = min(used, of)
    return Text("■" * used, style=style).append("□" * (of - used), style="grey42")


def _worker(worker: ShownWorker) -> Text:
    styles = {"starting": "dim", "working": "green", "killed": "bold red", "stopped": "dim"}
    mark = {"killed": "✖", "working": "●"}.get(worker.state, "○")
    text = Text(f"  {mark} worker {worker.name} ", style=styles[worker.state])
    doing = f"runs {worker.running}" if worker.state == "working" else worker.state
    return text.append(doing)


def _events(scene: Scene, lines: int) -> RenderableType:
    shown = [_event(event) for event in scene.events[-lines:]]
    return Group(Rule(style="dim"), *shown, *[Text("")] * (lines - len(shown)))


def _event(event: Event) -> Text:
    text = Text(f"{event.at:5.1f} s  ", style="dim", no_wrap=True, overflow="ellipsis")
    return text.append(event.text, style=f"not dim {TONES[event.tone]}")
