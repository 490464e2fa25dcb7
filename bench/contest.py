"""One row: every system in turn, round after round, so that a slow moment of the machine hits all alike."""

from collections.abc import Iterator

from bench.checks import judge
from bench.environments import EnvironmentFailed
from bench.measuring import MeasurementFailed, measure
from bench.options import Options
from bench.progress import Progress
from bench.results import Result, combine
from bench.rows import Entry, Row
from bench.systems import SYSTEMS

HEADGATE = Entry("headgate", timeout=180)


def run(row: Row, options: Options, progress: Progress) -> list[Result]:
    """The results of all systems for one row, Headgate's last and judged."""
    measured = [(entry, _result(row, entry, options)) for entry in entries(row, options)]
    for turn in range(options.rounds):
        for entry, result in measured:
            if result.error is None and turn < rounds_of(entry, row, options):
                _measure(row, entry, result, options, progress, turn)
    results = [result for _, result in measured]
    _judge(row, results)
    return results


def entries(row: Row, options: Options) -> Iterator[Entry]:
    """Who takes part, Headgate last."""
    if options.peers:
        yield from row.peers
    yield HEADGATE


def rounds_of(entry: Entry, row: Row, options: Options) -> int:
    """How often this one is measured."""
    return min(options.rounds, row.rounds or options.rounds, entry.rounds or options.rounds)


def _result(row: Row, entry: Entry, options: Options) -> Result:
    params = {**row.params, **entry.params}
    if options.sizes and "sizes" in params:
        params["sizes"] = list(options.sizes)
    elif options.quick:
        # Whatever is fewest: a slow one may have few anyway.
        params |= {name: min(value, params[name]) for name, value in row.quick.items()}
    return Result(row.name, entry.name, options.engine.name, params, options.quick, entry.decides)


def _measure(row: Row, entry: Entry, result: Result, options: Options, progress: Progress, turn: int) -> None:
    system = SYSTEMS[entry.system]
    with progress.step(row, entry, turn) as step:
        try:
            figures = measure(
                system, row.workload, result.params, options.engine, options.url, row.timeout or entry.timeout
            )
        except (MeasurementFailed, EnvironmentFailed) as failure:
            result.error = str(failure)
            step.say(f"failed: {failure}")
        else:
            result.rounds.append(figures)
            step.say(row.show(figures))


def _judge(row: Row, results: list[Result]) -> None:
    for result in results:
        if result.error is None:
            result.figures = combine(result.rounds)
    *others, ours = results
    peers = {other.system: other.figures for other in others if other.decides and other.figures}
    if ours.figures:
        ours.verdicts = [judge(check, ours.figures, peers) for check in row.checks]
