"""One job for people: what it is, what became of it, and the end of its last traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app.info import AttemptInfo, JobInfo

FOLDED = 8
"""Lines of a traceback that are shown unless all are asked for: the innermost ones say most."""
MOST_ATTEMPTS = 20
MOST_LINE = 100


def show_job(job: JobInfo, sentence: str, *, traceback: bool) -> None:
    """Print everything about a job; with `traceback` also the whole traceback of every attempt."""
    from rich.table import Table
    from rich.text import Text

    from headgate.app.failure import failure
    from headgate.cli.show import print_table, readable, say, state_text

    say(sentence)
    fields = Table.grid(padding=(0, 2))
    for name, value in _fields(job):
        cell = state_text(value) if name == "state" else Text(readable(value))
        fields.add_row(Text(name, style="bold"), cell)
    print_table(fields)
    _show_attempts(job.attempts)
    for heading, error in _errors(job, traceback):
        _show_trace(heading, failure(error).traceback, None if traceback else FOLDED)


def _errors(job: JobInfo, every: bool) -> list[tuple[str, str | None]]:
    """The errors whose tracebacks are shown: the last one, or that of every attempt."""
    if every:
        return [(f"attempt {past.number}", past.error) for past in job.attempts if past.error]
    return [] if job.state == "succeeded" else [("error", job.error)]


def _show_trace(heading: str, trace: str, most: int | None) -> None:
    from headgate.cli.show import output, readable

    lines = trace.splitlines()
    if not lines:
        return
    hidden = 0 if most is None else max(len(lines) - most, 0)
    console = output()
    console.print(f"\n{heading}:", style="bold", markup=False)
    if hidden:
        console.print(f"  … {hidden} lines more with --traceback", style="dim", markup=False)
    for line in lines[hidden:]:
        console.print(readable(f"  {line}"), markup=False, soft_wrap=True)


def _show_attempts(attempts: tuple[AttemptInfo, ...]) -> None:
    from headgate.app.explain import error_line
    from headgate.cli.show import say, table
    from headgate.clock import span

    if not attempts:
        return
    say("")
    rows = (
        (
            past.number,
            past.outcome,
            _instant(past.started_at),
            span((past.ended_at - past.started_at).total_seconds()),
            past.worker,
            error_line(past.error)[:MOST_LINE] if past.error else "",
        )
        for past in attempts[-MOST_ATTEMPTS:]
    )
    table(("attempt", "outcome", "started", "took", "worker", "error"), rows, right=("attempt",))
    if len(attempts) > MOST_ATTEMPTS:
        say(f"The last {MOST_ATTEMPTS} of {len(attempts):,} attempts; --json has them all.")


def _fields(job: JobInfo) -> list[tuple[str, str]]:
    import msgspec

    from headgate.app.failure import failure
    from headgate.sealing import SealedPayload

    def as_json(value: Any) -> str:
        if isinstance(value, SealedPayload):
            return f"({value}; --app MODULE:APP with its codec shows it)"
        return "" if value is None or value == {} else msgspec.json.encode(value).decode()

    error = failure(job.error)
    fields = [
        ("state", job.state.value + (", asked to stop" if job.cancel_requested else "")),
        ("task", job.task),
        ("args", as_json(job.args)),
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tenant", job.tenant or ""),
        ("limits", "\n".join(job.limits)),
        ("unique", job.unique or ""),
        ("share", job.share or ""),
        ("expires", _instant(job.expires)),
        ("enqueued", _instant(job.enqueued_at)),
        ("due", _instant(job.due)),
        ("started", _instant(job.started_at)),
        ("ended", _instant(job.ended_at)),
        ("worker", job.worker or ""),
        ("attempts", _attempts(job)),
        ("lost", f"{job.lost} of {job.retry.losses}, suspicion {job.suspicion}" if job.suspicion else ""),
        ("metadata", as_json(job.metadata)),
        ("headers", as_json(job.headers)),
        ("progress", as_json(job.progress)),
        ("result", as_json(job.result)),
        ("error", ": ".join(part for part in (error.kind, error.message) if part)),
    ]
    return [(name, value) for name, value in fields if value]


def _attempts(job: JobInfo) -> str:
    counted = f"{job.attempt} so far; {job.tries} of {job.retry.attempts} counted"
    ended_early = job.state == "failed" and 0 < job.tries < job.retry.attempts
    return f"{counted}, and the last error is none that the task's retry= covers" if ended_early else counted


def _instant(at: Any) -> str:
    from headgate.cli.times import ago

    return "" if at is None else f"{at.isoformat(sep=' ', timespec='milliseconds')[:23]} UTC ({ago(at)})"
