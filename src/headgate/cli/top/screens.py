"""What a reading looks like: a head with the totals, then one of four views, cut to the size of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headgate.cli.show import STATE_STYLES, readable
from headgate.clock import span

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions

    from headgate.app.info import LimitInfo
    from headgate.cli.top.reading import Reading

BAR = 10
HEAD = 6
"""Lines above and below a view."""
SPARKS = "▁▂▃▄▅▆▇█"
STATES = ("running", "ready", "waiting", "scheduled", "failed", "succeeded", "cancelled")
Row = Sequence[Any]


def screen(reading: Reading, view: int, first: int, store: str, note: str, size: ConsoleDimensions) -> Group:
    """One view under the head, scrolled to a row."""
    name, build = VIEWS[view]
    room = max(1, size.height - HEAD)
    return Group(
        *_head(reading, store, note, size.width),
        _tabs(name),
        *build(reading, first, room, size.width),
    )


def whole(reading: Reading, store: str, width: int) -> Group:
    """All views, one under the other, for where nothing can be scrolled."""
    parts: list[Any] = [*_head(reading, store, "", width), Text()]
    for name, build in VIEWS[1:]:
        parts += [Text(name, style="bold"), *build(reading, 0, 1000, width), Text()]
    return Group(*parts)


# ── the head ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _head(reading: Reading, store: str, note: str, width: int) -> list[Text]:
    title = Text.assemble(("headgate ", "bold"), readable(store), f"  {reading.now:%H:%M:%S} UTC")
    if note:
        title.append(f"  {readable(note)}", style="bold yellow")
    title.truncate(width, overflow="ellipsis")
    totals = Text()
    for state in STATES:
        number = getattr(reading.totals, state)
        more = "+" if state in reading.totals.partial else ""
        totals.append(f"{number:,}{more} ", style=STATE_STYLES[state])
        totals.append(f"{state}   ")
    totals.truncate(width, overflow="ellipsis")
    return [title, totals, _pace(reading, width)]


def _pace(reading: Reading, width: int) -> Text:
    """Starts by the minute over an hour, and what came of the last full minutes."""
    by_minute = {int(one.at.timestamp()) // 60: one for one in reading.history}
    now = int(reading.now.timestamp()) // 60
    started = [by_minute[minute].started if minute in by_minute else 0 for minute in range(now - 59, now + 1)]
    failed = sum(one.failed for one in reading.history)
    waited = sum(one.waited for one in reading.history) / max(1, sum(one.started for one in reading.history))
    text = Text.assemble(
        (sparkline(started), "cyan"),
        f" {sum(started):,} started in an hour, {failed:,} failed, waited {waited:.1f} s each",
    )
    text.truncate(width, overflow="ellipsis")
    return text


def sparkline(numbers: Sequence[int]) -> str:
    """Numbers as a line of bars; nothing is a blank."""
    most = max([*numbers, 1])
    return "".join(
        " " if not n else SPARKS[min(len(SPARKS) - 1, n * len(SPARKS) // (most + 1))] for n in numbers
    )


def _tabs(chosen: str) -> Text:
    tabs = Text()
    for number, (name, _) in enumerate(VIEWS, 1):
        tabs.append(f" {number} {name} ", style="reverse bold" if name == chosen else "")
    return tabs.append("  tab: next   space: hold   q: end", style="dim")


# ── the views ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _overview(reading: Reading, first: int, room: int, width: int) -> list[Any]:
    half = max(3, (room - 6) // 3)
    parts: list[Any] = [*_queues(reading, first, half, width), Text()]
    parts += [*_limits(reading, 0, half, width), Text()]
    left = max(1, room - 2 * half - 8)
    rows = [
        (job.task, _first_line(job.error), _ago(reading.now, job.ended_at), job.id)
        for job in reading.failed[:left]
    ]
    return [*parts, *_table(("failed", "error", "", "id"), rows, "Nothing has failed.")]


def _queues(reading: Reading, first: int, room: int, width: int) -> list[Any]:
    rows = [
        (
            queue.name,
            Text("paused", style="bold yellow") if queue.paused else "",
            *(f"{getattr(queue, state):,}{'' if queue.exact else '+'}" for state in STATES[:4]),
            "" if queue.oldest is None else _ago(reading.now, queue.oldest),
        )
        for queue in sorted(reading.queues, key=lambda one: (-one.running - one.ready - one.waiting, one.name))
    ]  # fmt: skip
    names = ("queue", "", "running", "ready", "waiting", "scheduled", "oldest ready")
    return _table(names, _cut(rows, first, room), "No queue has unfinished jobs.", right=names[2:6])


def _limits(reading: Reading, first: int, room: int, width: int) -> list[Any]:
    rows = [
        (limit.key, limit.tenant or "", _used(limit), f"{limit.waiting:,}", _override(limit))
        for limit in reading.limits
    ]
    names = ("tightest keys", "tenant", "used", "waiting", "override")
    return _table(names, _cut(rows, first, room), "No job waits for a limit.", right=("waiting",))


def _workers(reading: Reading, first: int, room: int, width: int) -> list[Any]:
    rows = [
        (
            worker.id,
            f"{worker.host} {worker.pid}",
            "all" if worker.queues is None else ", ".join(worker.queues),
            _bar(worker.running, worker.concurrency),
            span((reading.now - worker.registered_at).total_seconds()),
            _ago(reading.now, worker.lease_until),
        )
        for worker in reading.workers
    ]
    names = ("worker", "process", "queues", "running", "up", "lease ends")
    return _table(names, _cut(rows, first, room), "No worker is registered; `headgate worker` starts one.")


VIEWS: tuple[tuple[str, Callable[[Reading, int, int, int], list[Any]]], ...] = (
    ("overview", _overview),
    ("queues", _queues),
    ("limits", _limits),
    ("workers", _workers),
)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(columns: Sequence[str], rows: Sequence[Row], empty: str, right: Sequence[str] = ()) -> list[Any]:
    if not rows:
        return [Text(empty, style="dim")]
    made = Table(box=None, header_style="bold dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(readable(str(cell))) for cell in row))
    return [made]


def _cut(rows: Sequence[Row], first: int, room: int) -> Sequence[Row]:
    """The rows that have room; the last ones stay in sight however far it is scrolled."""
    shown = max(1, room - 1)
    begin = min(first, max(0, len(rows) - shown))
    return rows[begin : begin + shown]


def _used(limit: LimitInfo) -> Text:
    if limit.max is None:
        return Text("no limit", style="dim")
    if limit.kind == "rate":
        return Text(f"{limit.max:,} per {limit.per:g} s")
    return _bar(limit.held, limit.max)


def _bar(used: int, most: int) -> Text:
    """Used of most, as a bar and in numbers."""
    full = BAR if most == 0 else min(BAR, round(BAR * used / most))
    style = "red" if used >= most else "green"
    return Text.assemble(("█" * full, style), ("░" * (BAR - full), "dim"), f" {used:,} of {most:,}")


def _override(limit: LimitInfo) -> str:
    if limit.override is None:
        return ""
    return " ".join(part for part in (f"by {limit.override.by or 'an operator'}", limit.override.why) if part)


def _first_line(error: str | None) -> str:
    return (error or "").strip().partition("\n")[0]


def _ago(now: datetime, at: datetime | None) -> str:
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"
