"""`headgate demo`."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.exits import FAILED
from headgate.cli.options import Json

if TYPE_CHECKING:
    from headgate.cli.demo.proof import Claim
    from headgate.cli.demo.story import Story


def demo(
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines instead of a live view, as for a pipe.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Leave the store, journal and logs there.")
    ] = None,
    web: Annotated[
        bool, typer.Option("--web", help="With the dashboard beside it, which stays until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Watch limits at work: 320 jobs, two worker processes, one of them killed half-way.

    headgate demo
    headgate demo --web
    headgate demo | tee demo.log
    headgate demo --keep here; headgate jobs --url sqlite:///here/demo.db

    It runs for about fifteen seconds on a SQLite file of its own. At the end
    every claim is checked against what the jobs wrote down about themselves; it
    exits with 1 if one does not hold.

    --json prints one object at the end: ok, seconds, claims (claim, found,
    holds).
    """
    with ExitStack() as stack:
        stack.enter_context(_stopped_by_signals())
        story = _story(stack, keep)
        address = _serve(stack, story) if web else None
        if json:
            _play_silently(story)
        elif plain or not sys.stdout.isatty():
            _play_lines(story)
        else:
            _play_live(story)
        claims = _proof(story)
        _conclude(claims, story, json)
        if address is not None:
            _stay(address, json)
    if keep is not None and not json:
        typer.echo(f"\nLook around: headgate jobs --url {story.url}")
    if not all(claim.holds for claim in claims):
        raise typer.Exit(FAILED)


def _story(stack: ExitStack, keep: Path | None) -> Story:
    import tempfile

    from headgate.cli.demo.story import Story
    from headgate.errors import ConfigError

    if keep is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-demo-")))
    else:
        folder = keep.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"--keep {keep}: the folder is not empty")
    return Story(folder)


def _serve(stack: ExitStack, story: Story) -> str:
    """The dashboard beside the story, which says where it is."""
    from headgate.app.app import App
    from headgate.cli.demo.dashboard import dashboard

    with App(story.url) as app:
        app.migrate_sync()
    address = stack.enter_context(dashboard(story.url, story.folder))
    typer.echo(f"The dashboard: {address}", err=True)
    return address


def _stay(address: str, json: bool) -> None:
    """Until Ctrl-C or SIGTERM, which end it in good order."""
    if not json:
        typer.echo(f"\nLook around at {address} (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


@contextmanager
def _stopped_by_signals() -> Generator[None]:
    """However it is stopped, its workers must not outlive it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before: dict[Any, Any] = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _play_live(story: Story) -> None:
    from rich.live import Live

    from headgate.cli.demo.picture import picture
    from headgate.cli.show import output

    with Live(console=output(), auto_refresh=False, vertical_overflow="crop") as live:
        for scene in story.scenes():
            live.update(picture(scene, live.console.height), refresh=True)


def _play_lines(story: Story) -> None:
    from headgate.cli.demo.plain import PlainReport

    lines = PlainReport()
    for scene in story.scenes():
        for line in lines.of(scene):
            print(line, flush=True)


def _play_silently(story: Story) -> None:
    for _ in story.scenes():
        pass


def _proof(story: Story) -> list[Claim]:
    from headgate.app.app import App
    from headgate.cli.demo.proof import Evidence, prove
    from headgate.cli.demo.workload import TOTAL

    story.reader.follow()
    with App(story.url) as app:
        evidence = Evidence(
            entries=story.reader.entries,
            ids=story.ids,
            kills={
                process.pid: process.killed_at for process in story.processes if process.killed_at is not None
            },
            states={job.id: job.state for job in app.jobs_sync(size=TOTAL * 2)},
            problems=app.audit_sync().problems,
        )
    return prove(evidence)


def _conclude(claims: list[Claim], story: Story, json: bool) -> None:
    from rich.text import Text

    from headgate.cli.show import json_line, say, table

    ok = all(claim.holds for claim in claims)
    seconds = round(story.seconds, 1)
    if json:
        json_line({"ok": ok, "seconds": seconds, "claims": claims})
        return
    say("\nWhat the jobs wrote down about themselves proves it:" if ok else "\nNot everything holds:")
    marks = {True: Text("✓", style="bold green"), False: Text("✗", style="bold red")}
    table(("", "claim", "found"), ((marks[one.holds], one.claim, one.found) for one in claims))
    say(f"{len(story.ids)} jobs in {seconds:g} s.")
